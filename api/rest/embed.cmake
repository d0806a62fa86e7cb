# Writes INPUT as a C array into OUTPUT: cmake -DINPUT=chan.yaml -DOUTPUT=openapi_yaml.c -P embed.cmake
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n"
       bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"api/rest/openapi_yaml.h\"\n\nconst unsigned char openapi_yaml[] = {\n${bytes}\n};
const size_t openapi_yaml_length = sizeof openapi_yaml;\n")
