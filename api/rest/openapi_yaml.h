/* openapi/chan.yaml, put into the program by the build. */
#ifndef CHAN_API_REST_OPENAPI_YAML_H
#define CHAN_API_REST_OPENAPI_YAML_H

#include <stddef.h>

extern const unsigned char openapi_yaml[];
extern const size_t openapi_yaml_length;

#endif
