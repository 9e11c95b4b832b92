#pragma once

/* The text of --help before and after the list of the options, which options.c prints from its
   table. */

static const char help_begin[] =
    "Usage: agent --redis-url URL --job-id ID [OPTION]...\n"
    "       agent --once [--job-id ID] [OPTION]... <STEP\n"
    "       agent --http ADDRESS [--job-id ID] [OPTION]...\n"
    "       agent --mcp | --stdio [--http ADDRESS] [OPTION]...\n"
    "       agent --ipc [OPTION]...\n"
    "       agent --inject TARGET\n"
    "\n"
    "Runs the steps of the Redis list sandbox:ID:in, and reports to sandbox:ID:events\n"
    "and sandbox:ID:results, until a shutdown step or a signal stops it. --http, --once,\n"
    "--mcp, --stdio and --ipc need no Redis. If the program is called tool-executor or\n"
    "tool-executor.sh, --ipc is the default; if it is called tool-runner or like a tool,\n"
    "--stdio is.\n"
    "\n"
    "Options:\n";

static const char help_end[] =
    "\n"
    "Each option, except those that choose what the program does, can also be set by an\n"
    "environment variable: the one in [brackets], else SANDBOX_ and the name in capitals,\n"
    "such as SANDBOX_EVENTS_MAXLEN=20000 and SANDBOX_VERBOSE=1. An option overrides its\n"
    "variable. An empty variable counts as not set, and one line break at the end is\n"
    "ignored. SANDBOX_HTTP counts only if no option and no name chooses what to do.\n"
    "\n"
    "Exit codes:\n"
    "  0 shutdown step, or injected\n"
    "  2 idle limit, unless --idle-exit-code names another code\n"
    "  3 an error that the program cannot recover from\n"
    "  64 wrong usage\n"
    "  128+N stopped by signal N\n"
    "With --once: the exit code of the step; 124 timed out; 125 rejected or not started;\n"
    "141 standard output is closed.\n";
