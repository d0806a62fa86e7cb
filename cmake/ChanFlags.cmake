# Compiler flags that every target of the project shares.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # _GNU_SOURCE for Linux calls; the language stays C11
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
  -Wvla -Wformat=2 -Wcast-qual -Wpointer-arith -Wundef -Wwrite-strings)
if(CHAN_WERROR)
  add_compile_options(-Werror)
endif()

if(CMAKE_BUILD_TYPE MATCHES "Rel")
  add_compile_options(-fstack-protector-strong -fstack-clash-protection)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection)
  endif()
  add_compile_definitions(_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES C)
endif()

if(CHAN_SANITIZE)
  add_compile_options(-fsanitize=${CHAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CHAN_SANITIZE})
endif()
if(CHAN_FAULT_POINTS)
  add_compile_definitions(CHAN_FAULT_POINTS=1)
endif()
