#ifndef WIRE_FEATURES_H
#define WIRE_FEATURES_H

/* The schemaVersions of steps that are taken, the lowest and the highest. */
#define PROTOCOL_VERSIONS "1-2"

/* What a server may depend on beyond the first version of the protocol: an agent ignores a field
   that it does not know, and so a server looks here first. NULL-terminated. */
extern const char *const protocol_features[];

#endif
