#ifndef AGENT_DOORS_REDIS_NET_VERSION_H
#define AGENT_DOORS_REDIS_NET_VERSION_H

/* "hiredis 1.2.0": of the library this program was linked with. */
const char *redis_client_version(void);

#endif
