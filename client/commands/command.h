#pragma once

#include "client/program.h"

/* The commands of `sandbox`, which help.c lists. `argv[0]` is the name. Each checks its usage
   (options.h), begins the program (program.h), and returns the exit code, or COMMAND_USAGE after
   the message of wrong usage, --help or --version. */
#define COMMAND_USAGE (-1)

typedef int command_function(struct program *program, int argc, char **argv);

command_function run_command, follow_command, ps_command, cancel_command, read_command,
    write_command, edit_command, ls_command, grep_command, tree_command, cp_command, top_command,
    jobs_command, ping_command, shutdown_command, doctor_command;
