#include "client/help.h"

#include <stdio.h>
#include <string.h>

/* Each line is followed by the next one. */
static const struct command commands[] = {
    {"run", "run a command; show its output and exit with its code", run_command,
     "Usage: sandbox run [OPTION]... [--] COMMAND [ARGUMENT]...\n"
     "       sandbox run [OPTION]... -c SCRIPT\n"
     "\n"
     "  -c SCRIPT              run a script with sh\n"
     "  -w, --workdir DIR      working directory; default: /work, or that of the agent\n"
     "  -e, --env NAME[=VALUE] set a variable, by default to its value here; repeatable\n"
     "  -t, --timeout TIME     end the step after 90, 90s, 5m or 2h; default: 600 s\n"
     "  -i                     send standard input, up to 16 MiB of UTF-8; default: none\n"
     "  --raw, --text          pass each byte on, or show lines; default: --text on a\n"
     "                         terminal and with --json, otherwise --raw\n"
     "  --fence JSON|@FILE     sandbox policy: {writePaths, readPaths, network,\n"
     "                         tcpConnect, tcpBind, bestEffort}; default: none\n"
     "  --read-only            the step writes nothing: writePaths []\n"
     "  --no-network           the step has no network: network none\n"
     "  --limits JSON|@FILE    {memoryBytes, processes, openFiles, fileSizeBytes,\n"
     "                         cpuSeconds, coreBytes}; default: none\n"
     "  --detach               print the id of the step, and do not wait for it\n"
     "  --id GUID              the id of the step; default: a random one\n"
     "\n"
     "Examples:\n"
     "  sandbox run -w /work/app -t 5m -- make test\n"
     "  sandbox run -e DEBUG=1 -c 'cd app && ./configure | tail -n 3'\n"
     "  sandbox run --fence '{\"writePaths\":[\"/work\",\"/tmp\"]}' --no-network -- make test\n"},
    {"follow", "show the output of steps live; with an ID, exit with its code", follow_command,
     "Usage: sandbox follow [OPTION]... [ID]\n"
     "\n"
     "  -n LINES      first show this number of old lines; default: 0, with an ID all\n"
     "  --since AGE   first show lines that are not older than 30s, 5m, 2h or 1d;\n"
     "                default: no old lines\n"
     "  --all         show every step, and which one printed a line; not with an ID\n"
     "  --timestamps  show when each line was printed\n"
     "  --html FILE   write the output of the step to a page\n"
     "  --cast FILE   write a recording for asciinema\n"
     "\n"
     "Examples:\n"
     "  sandbox follow -n 20 --all\n"
     "  sandbox follow 7f3a --html build.html\n"},
    {"ps", "list the running step and the waiting steps", ps_command,
     "Usage: sandbox ps\n"
     "\n"
     "Examples:\n"
     "  sandbox ps\n"
     "  sandbox ps --json | jq -r '.[].id'\n"},
    {"cancel", "cancel steps by ID or unique prefix", cancel_command,
     "Usage: sandbox cancel ID\n"
     "       sandbox cancel --running | --waiting | --all\n"
     "\n"
     "  --running  cancel the running step\n"
     "  --waiting  cancel the waiting steps\n"
     "  --all      cancel both\n"
     "\n"
     "Examples:\n"
     "  sandbox cancel 7f3a\n"
     "  sandbox cancel --running\n"},
    {"read", "print a file; with -l, print numbered lines", read_command,
     "Usage: sandbox read [-l FROM[:COUNT]] PATH\n"
     "\n"
     "  -l FROM[:COUNT]  print numbered lines, the first of which is 1; default: the file\n"
     "\n"
     "Examples:\n"
     "  sandbox read -l 10:5 src/main.c\n"
     "  sandbox read build/app.tar | tar -t\n"},
    {"write", "write standard input to a file", write_command,
     "Usage: sandbox write PATH < FILE\n"
     "\n"
     "Examples:\n"
     "  sandbox write app.conf < app.conf\n"
     "  tar -c src | sandbox write src.tar\n"},
    {"edit", "replace a unique text in a file, or each one with --all", edit_command,
     "Usage: sandbox edit [--all] PATH OLD NEW\n"
     "\n"
     "  --all  replace every occurrence; default: OLD must occur once\n"
     "\n"
     "Examples:\n"
     "  sandbox edit Makefile 'CC = gcc' 'CC = clang'\n"
     "  sandbox edit --all src/main.c old_name new_name\n"},
    {"ls", "list a directory: type, size, name", ls_command,
     "Usage: sandbox ls [PATH]\n"
     "\n"
     "Sizes are in bytes. The default of PATH is the working directory of steps.\n"
     "\n"
     "Examples:\n"
     "  sandbox ls\n"
     "  sandbox ls --json /usr/lib\n"},
    {"grep", "search files: path:line:text; exit with 1 if nothing matches", grep_command,
     "Usage: sandbox grep [OPTION]... PATTERN [PATH]\n"
     "\n"
     "  -g GLOB   search only files whose names match; default: all\n"
     "  -i        ignore case; default: case matters\n"
     "  -l        print only the paths of files with a match\n"
     "  -c        print path:count, the number of matching lines\n"
     "  -A LINES  also print this number of lines after each match; default: 0\n"
     "  -B LINES  the same before it; default: 0\n"
     "  -C LINES  the same after and before it; default: 0\n"
     "  --hidden  also search hidden and ignored files\n"
     "\n"
     "Exits with 2 if the pattern is invalid.\n"
     "\n"
     "Examples:\n"
     "  sandbox grep -g '*.c' 'TODO|FIXME' src\n"
     "  sandbox grep -i error build.log\n"},
    {"tree", "draw a directory tree", tree_command,
     "Usage: sandbox tree [PATH]\n"
     "\n"
     "The default of PATH is the working directory of steps.\n"
     "\n"
     "Examples:\n"
     "  sandbox tree\n"
     "  sandbox tree src\n"},
    {"cp", "copy a file or directory into or out of the sandbox", cp_command,
     "Usage: sandbox cp [-a] [-r] SRC DST\n"
     "\n"
     "One of them is in the sandbox, and begins with a colon: :PATH\n"
     "\n"
     "  -a, -r  accepted, but change nothing: directories, modes and times are copied\n"
     "\n"
     "Examples:\n"
     "  sandbox cp src :/work\n"
     "  sandbox cp :build/report.html .\n"},
    {"top", "show what jobs use: CPU, memory, steps per minute", top_command,
     "Usage: sandbox top\n"
     "\n"
     "Every 2 s until Ctrl-C, or once if standard output is not a terminal.\n"
     "\n"
     "Examples:\n"
     "  sandbox top\n"
     "  sandbox top --json -j pipe-42\n"},
    {"jobs", "list the jobs that have an agent", jobs_command,
     "Usage: sandbox jobs\n"
     "\n"
     "Examples:\n"
     "  sandbox jobs\n"
     "  sandbox jobs --json | jq -r .job\n"},
    {"ping", "exit with 0 if the job's agent is alive, else with 1", ping_command,
     "Usage: sandbox ping\n"
     "\n"
     "Exits with 0 if the agent of the job is alive, with 1 if it is not, and with\n"
     "125 if Redis does not answer within 1 s.\n"
     "\n"
     "Examples:\n"
     "  sandbox ping -j pipe-42\n"
     "  sandbox -q ping || echo no agent\n"},
    {"shutdown", "stop the agent after its steps, or now", shutdown_command,
     "Usage: sandbox shutdown [--now]\n"
     "\n"
     "  --now  cancel the steps first; default: wait for them\n"
     "\n"
     "Examples:\n"
     "  sandbox shutdown\n"
     "  sandbox shutdown --now -j pipe-42\n"},
    {"doctor", "diagnose problems and suggest fixes", doctor_command,
     "Usage: sandbox doctor\n"
     "\n"
     "Exits with 1 if there is a problem. Without a job, it checks Redis only.\n"
     "\n"
     "Examples:\n"
     "  sandbox doctor\n"
     "  sandbox doctor --json | jq -r 'select(.level == \"problem\").fix'\n"},
};
#define COMMANDS (sizeof commands / sizeof *commands)

/* Together with the command line and the next prompt, the help fits 24 lines of 80 columns. */
static const char head[] =
    "Usage: sandbox [OPTION]... COMMAND [ARGUMENT]...  (sandbox help COMMAND)\n";

static const char tail[] =
    "\n"
    "  -u, --redis-url URL  Redis [REDIS_URL], or http://HOST:PORT [SANDBOX_URL]\n"
    "  -j, --job JOB        the job [JOB_ID]; default: the only one that is alive\n"
    "  --json  one JSON value per line;  -q  only errors;  --color auto|always|never\n"
    "Exit codes: the command's; 124 timed out, 125 not run or unknown, 130 cancelled\n";

static const char common[] = "\n-u URL, -j JOB, -q, --json and --color WHEN: see sandbox --help\n";

const struct command *help_find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  return NULL;
}

void help_print(struct terminal *terminal, bool to_stderr, const struct command *command) {
  if (command != NULL) {
    terminal_put_raw(terminal, to_stderr, command->help);
    terminal_put_raw(terminal, to_stderr, common);
    return;
  }
  terminal_put_raw(terminal, to_stderr, head);
  for (size_t i = 0; i < COMMANDS; i++) {
    char line[128];
    (void)snprintf(line, sizeof line, "  %-10s%s\n", commands[i].name, commands[i].summary);
    terminal_put_raw(terminal, to_stderr, line);
  }
  terminal_put_raw(terminal, to_stderr, tail);
}
