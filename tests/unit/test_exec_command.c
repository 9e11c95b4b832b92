#include <sched.h>
#include <sys/mman.h>

#include "agent/process/exec_command.h"
#include "tests/support/directory.h"
#include "tests/test.h"

/* A command that a test executes in a child, and its outcome. */
struct trial {
  struct directory directory; /* for scripts */
  bool may_be_missing;        /* the directory */
  char output[4096];          /* stdout */
  int status;
  struct exec_failure *failure; /* shared with the child */
};

static int set_up(void **state) {
  struct trial *trial = calloc(1, sizeof *trial);
  trial->failure =
      mmap(NULL, sizeof *trial->failure, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  directory_init(&trial->directory);
  *state = trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  directory_release(&trial->directory);
  munmap(trial->failure, sizeof *trial->failure);
  free(trial);
  return 0;
}

/* Executes the command in a child and reads its output. Returns whether execve(2) succeeded. */
static bool run_in(struct trial *self, const char *directory, char *const *argv,
                   char *const *envp) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  memset(self->failure, 0, sizeof *self->failure);
  const struct exec_command command = {.argv = argv,
                                       .envp = envp,
                                       .directory = directory,
                                       .directory_may_be_missing = self->may_be_missing};
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    exec_command(&command, self->failure);
    _exit(127);
  }
  close(out[1]);
  size_t length = 0;
  for (ssize_t n; (n = read(out[0], self->output + length, sizeof self->output - 1 - length)) > 0;)
    length += (size_t)n;
  self->output[length] = '\0';
  close(out[0]);
  assert_int_equal(waitpid(pid, &self->status, 0), pid);
  /* A cut reason would fill the buffer, and error_set would have allocated memory. */
  assert_true(strlen(self->failure->reason.text) < sizeof self->failure->reason.text - 1);
  return self->failure->stage == EXEC_DONE;
}

static void says(struct trial *self, const char *directory, char *const *argv, char *const *envp,
                 const char *expected) {
  assert_true(run_in(self, directory, argv, envp));
  assert_int_equal(self->status, 0);
  assert_string_equal(self->output, expected);
}

/* Writes a file in the trial's directory. */
static void make_file(struct trial *self, const char *name, const char *text, mode_t mode) {
  const char *path = directory_path(&self->directory, name);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(path, mode), 0);
}

static void refused(struct trial *self, const char *directory, char *command, char *path,
                    const char *expected) {
  char *argv[] = {command, NULL};
  char *envp[] = {path, NULL};
  assert_false(run_in(self, directory, argv, envp));
  if (strstr(self->failure->reason.text, expected) == NULL)
    assert_string_equal(self->failure->reason.text, expected);
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

TRIAL_TEST(an_empty_path_entry_is_the_working_directory) {
  make_file(trial, "here", "#!/bin/sh\necho found\n", 0755);
  char *paths[] = {"PATH=", "PATH=:/nowhere", "PATH=/nowhere:", "PATH=/nowhere::/nowhere"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    char *argv[] = {"here", NULL};
    char *envp[] = {paths[i], NULL};
    says(trial, trial->directory.path, argv, envp, "found\n");
  }
}

TRIAL_TEST(without_a_path_the_default_path_is_searched) {
  char *argv[] = {"echo", "found", NULL};
  char *envp[] = {NULL};
  says(trial, NULL, argv, envp, "found\n");
}

TRIAL_TEST(a_script_with_an_unusable_first_line_is_explained) {
  static const struct {
    const char *content, *why;
  } rows[] = {
      {"\xEF\xBB\xBF#!/bin/sh\n", "a byte order mark stands before its #!"},
      {"#!\n", "its #! names no interpreter"},
      {"#! \t", "its #! names no interpreter"},
      {"#!./script\n", "its interpreter ./script is a script, and so is the next one, too often"},
      {"#!/usr\n", "its interpreter /usr is a directory"},
      {"#!/etc/passwd\n", "its interpreter /etc/passwd is not executable"},
      {"#!/bin/sh\r\n", "ends in a carriage return"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    make_file(trial, "script", rows[i].content, 0755);
    refused(trial, trial->directory.path, "./script", "PATH=", rows[i].why);
  }
  char line[400] = "#!";
  memset(line + 2, 'x', sizeof line - 3);
  make_file(trial, "script", line, 0755);
  refused(trial, trial->directory.path, "./script",
          "PATH=", "its first line is longer than the 255 bytes that the kernel reads");
}

TRIAL_TEST(a_path_that_is_too_long_is_explained) {
  char *path = malloc(4097);
  memset(path, '/', 4096);
  path[4096] = '\0';
  refused(trial, NULL, path, "PATH=", "the path, or a name in it, is too long");
  refused(trial, NULL, path + 4096 - 300, "PATH=/bin", "it is a directory");
  free(path);
}

/* The kernel limits one text and, separately, all of them together. */
TRIAL_TEST(a_text_that_is_too_long_is_named_with_the_limit) {
  const size_t limit = 32 * (size_t)sysconf(_SC_PAGESIZE);
  char *text = malloc(limit + 10), expected[200];
  assert_non_null(text);
  memset(text, 'x', limit);
  text[limit] = '\0';
  char *argv[] = {"sh", "-c", text, NULL}, *envp[] = {"PATH=/bin", NULL, NULL};
  assert_false(run_in(trial, NULL, argv, envp));
  (void)snprintf(expected, sizeof expected,
                 "cannot run sh: argument 2 has %zu bytes, and Linux takes at most %zu (%zu KiB): "
                 "use stdin, or a file",
                 limit, limit - 1, limit / 1024);
  assert_string_equal(trial->failure->reason.text, expected);
  memcpy(text, "A=", 2);
  argv[2] = "exit";
  envp[1] = text;
  assert_false(run_in(trial, NULL, argv, envp));
  assert_non_null(strstr(trial->failure->reason.text, "the variable A has "));
  text[limit - 1] = '\0';
  says(trial, NULL, argv, envp, "");
  free(text);
}

TRIAL_TEST(a_path_that_a_shell_would_expand_is_named) {
  refused(trial, NULL, "no-such-command", "PATH=/bin:$PATH",
          "no-such-command: command not found on PATH: env.PATH has $PATH in it, which is not "
          "expanded");
  refused(trial, NULL, "no-such-command", "PATH=${PATH}",
          "PATH: env.PATH has $PATH in it, which is not expanded");
}

/* The child cannot allocate memory for it. */
TRIAL_TEST(a_reason_shows_the_beginning_of_a_long_name) {
  enum { LENGTH = 5000, LONG = 95 };
  char *name = malloc(LENGTH + 1), expected[300];
  assert_non_null(name);
  memset(name, 'x', LENGTH);
  name[LENGTH] = '\0';
  (void)snprintf(expected, sizeof expected, "%.150s: command not found on PATH", name);
  refused(trial, NULL, name, "PATH=/bin", expected);
  assert_string_equal(trial->failure->reason.text, expected);
  (void)snprintf(expected, sizeof expected, "working directory %.180s: File name too long", name);
  refused(trial, name, name, "PATH=/bin", expected);
  (void)snprintf(expected, sizeof expected, "cannot run /%.119s…: the path, or a name in it, is ",
                 name);
  name[0] = '/';
  refused(trial, NULL, name, "PATH=/bin", expected);
  name[LONG] = '\0';
  name[0] = '#';
  name[1] = '!';
  static const char *const ends[] = {"", "\r", "/"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    char line[LONG + 8], path[LONG + 8];
    (void)snprintf(line, sizeof line, "#!./%s%s\n", name + 2, ends[i]);
    (void)snprintf(path, sizeof path, "./%s", name + 2);
    make_file(trial, name + 2, line, 0755);
    refused(trial, trial->directory.path, path, "PATH=", "cannot run /");
    assert_int_equal(unlink(directory_path(&trial->directory, name + 2)), 0);
  }
  free(name);
}

TRIAL_TEST(a_directory_that_may_be_missing_is_skipped) {
  char *argv[] = {"pwd", NULL};
  char *own = getcwd(NULL, 0);
  trial->may_be_missing = true;
  assert_true(run_in(trial, "/no/such/place", argv, environ));
  assert_int_equal(strncmp(trial->output, own, strlen(own)), 0);
  assert_true(run_in(trial, "/bin/true", argv, environ));
  assert_int_equal(strncmp(trial->output, own, strlen(own)), 0);
  says(trial, "/usr", argv, environ, "/usr\n");
  /* A relative path is not shown below a missing directory. */
  refused(trial, "/no/such/place", "./gone", "PATH=", "cannot run ./gone: no such file");
  refused(trial, "/usr", "./gone", "PATH=", "cannot run /usr/./gone: no such file");
  free(own);
}

/* What a child executes that shares this process's memory. */
struct shared_trial {
  struct exec_command command;
  struct exec_failure *failure;
};

/* AddressSanitizer does not know the child's stack. */
__attribute__((no_sanitize("address"))) static int execute(void *context) {
  const struct shared_trial *self = context;
  exec_command(&self->command, self->failure);
  _exit(127);
}

/* As a supervisor's child does, it shares errno with this process, which sets it all the time. */
static void execute_while_errno_changes(struct shared_trial *self) {
  enum { STACK_SIZE = 64 * 1024 };
  char *stack = malloc(STACK_SIZE);
  assert_non_null(stack);
  memset(self->failure, 0, sizeof *self->failure);
  const pid_t pid = clone(execute, stack + STACK_SIZE, CLONE_VM | SIGCHLD, self);
  assert_true(pid > 0);
  while (waitpid(pid, NULL, WNOHANG) == 0)
    for (int i = 0; i < 100; i++)
      (void)close(-1);
  free(stack);
}

TRIAL_TEST(an_error_of_the_process_that_shares_its_memory_is_not_the_commands) {
  enum { ROUNDS = 100, ENTRIES = 100 };
  static const char entry[] = "/nowhere:";
  char path[sizeof "PATH=" + ENTRIES * sizeof entry] = "PATH=";
  for (int i = 0; i < ENTRIES; i++)
    strcat(path, entry);
  char *argv[] = {"no-such-command", NULL}, *envp[] = {path, NULL};
  struct shared_trial shared = {.command = {.argv = argv,
                                            .envp = envp,
                                            .directory = "/no/such/place",
                                            .directory_may_be_missing = true},
                                .failure = trial->failure};
  for (int i = 0; i < ROUNDS; i++) {
    execute_while_errno_changes(&shared);
    assert_string_equal(trial->failure->reason.text, "no-such-command: command not found on PATH");
  }
}
