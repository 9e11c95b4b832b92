#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/exit_code.h"
#include "client/help.h"
#include "client/options.h"
#include "wire/version.h"

static const struct command *find_command(struct program *self, const char *name) {
  const struct command *command = help_find(name);
  if (command == NULL)
    terminal_error(&self->terminal, "unknown command '%.60s'; sandbox --help lists them", name);
  return command;
}

/* Returns the exit code after a command, or options, that did not run. */
static int show(struct program *self, const struct command *command) {
  if (self->request == PROGRAM_RUNS)
    return EXIT_USAGE;
  if (self->request == PROGRAM_SHOWS_HELP)
    help_print(&self->terminal, false, command);
  else
    terminal_put_raw(&self->terminal, false, "sandbox " SANDBOX_VERSION "\n");
  return 0;
}

/* sandbox help [COMMAND] */
static int help(struct program *self, const char *name) {
  const struct command *command = name != NULL ? find_command(self, name) : NULL;
  if (name == NULL || command != NULL)
    self->request = PROGRAM_SHOWS_HELP;
  return show(self, command);
}

static int run(struct program *self, int argc, char **argv) {
  static const struct option none[] = {{NULL, 0, NULL, 0}};
  optind = 0;
  if (options_next(self, argc, argv, "+", none) != OPTIONS_END)
    return show(self, NULL);
  if (optind == argc) {
    help_print(&self->terminal, true, NULL);
    return EXIT_USAGE;
  }
  argv += optind;
  argc -= optind;
  if (strcmp(argv[0], "help") == 0)
    return help(self, argv[1]);
  const struct command *command = find_command(self, argv[0]);
  if (command == NULL)
    return EXIT_USAGE;
  self->command = command->name;
  const int code = command->run(self, argc, argv);
  return code == COMMAND_USAGE ? show(self, command) : code;
}

/* A full disk is an error. A reader such as head(1) that has read enough is not. */
static int flush_output(struct program *self, int code) {
  struct terminal *terminal = &self->terminal;
  terminal_reset_colors(terminal);
  (void)terminal_drain(terminal);
  const int failure = terminal->streams[0].failure;
  if (failure == 0 || failure == EPIPE)
    return code;
  terminal_error(terminal, "cannot write to standard output: %s", strerror(failure));
  (void)terminal_drain(terminal);
  return code == 0 || code == 128 + SIGPIPE ? EXIT_CLIENT : code;
}

/* Otherwise the first file or connection that is opened would become standard input, output or
   error. Standard output is opened for reading, so that writing to it still fails. */
static void open_closed_descriptors(void) {
  static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)open("/dev/null", modes[fd]); /* returns the lowest free descriptor */
}

int main(int argc, char **argv) {
  struct program program = {.begin_ms = clock_monotonic_ms()};
  /* In a pod, steps have the same user. They must not read the password from /proc. */
  (void)prctl(PR_SET_DUMPABLE, 0);
  open_closed_descriptors();
  (void)signal(SIGPIPE, SIG_IGN);
  terminal_init(&program.terminal);
  options_begin(&program);
  const int code = run(&program, argc, argv);
  program_end(&program);
  return flush_output(&program, code);
}
