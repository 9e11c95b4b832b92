#include "agent/doors/redis/net/version.h"

#include <hiredis/hiredis.h>

#define TEXT(number) #number
#define NUMBER(number) TEXT(number)

const char *redis_client_version(void) {
  return "hiredis " NUMBER(HIREDIS_MAJOR) "." NUMBER(HIREDIS_MINOR) "." NUMBER(HIREDIS_PATCH);
}
