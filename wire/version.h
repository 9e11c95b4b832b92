#pragma once

/* The version of both programs. The heartbeat and `--version` show it, and the Makefile names a
   release by it. */
#define SANDBOX_VERSION "0.4.0"
