#pragma once

/* The version of both programs: in the heartbeat, in `--version`, and of a release (Makefile). */
#define SANDBOX_VERSION "0.2.0"
