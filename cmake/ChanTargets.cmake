# chan_library(NAME [LINK targets...]): a static library of all .c files of the current folder.
# Sources find headers by their path from the top: #include "store/store.h".
function(chan_library NAME)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  add_library(${NAME} STATIC ${sources})
  target_include_directories(${NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${NAME} PUBLIC ${ARG_LINK})
endfunction()

# chan_unit_test(NAME SOURCES ... LINK ...): one Check program, registered with ctest as unit.NAME.
function(chan_unit_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
  add_executable(unit_${NAME} ${ARG_SOURCES})
  target_include_directories(unit_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  # Check's macros convert int to const char *; our own warnings stay on for everything else.
  target_compile_options(unit_${NAME} PRIVATE -Wno-conversion -Wno-format-nonliteral)
  target_link_libraries(unit_${NAME} PRIVATE ${ARG_LINK} PkgConfig::CHECK Threads::Threads)
  set_target_properties(unit_${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME unit.${NAME} COMMAND unit_${NAME})
  set_tests_properties(unit.${NAME} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()
