#ifndef WIRE_VERSION_H
#define WIRE_VERSION_H

/* The version of both programs: in the heartbeat, in `--version`, and of a release (Makefile). */
#define SANDBOX_VERSION "0.2.0"

#endif
