#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/spawn.h"
#include "tests/support/directory.h"
#include "tests/support/proc.h"
#include "tests/support/spawned.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { STARTS = 10000 };

/* What a test starts, and what came of it. */
struct trial {
  struct spawn_defaults defaults;
  struct directory directory; /* for scripts */
  bool may_be_missing;        /* the directory that a test names */
  char output[4096];          /* of both streams */
  int status;
  struct error error;
};

static int set_up(void **state) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  assert_int_equal(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC), 0); /* as the agent begins */
  struct trial *trial = calloc(1, sizeof *trial);
  trial->defaults.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  getrlimit(RLIMIT_NOFILE, &trial->defaults.open_files);
  directory_init(&trial->directory);
  *state = trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  directory_release(&trial->directory);
  close(trial->defaults.stdin_fd);
  free(trial);
  return 0;
}

/* Starts it and collects what it writes; the pid, or -1 when it did not become the program. */
static pid_t run_in(struct trial *self, const char *directory, char *const *argv,
                    char *const *envp) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  struct spawn_request request = {.argv = argv,
                                  .envp = envp,
                                  .directory = directory,
                                  .directory_may_be_missing = self->may_be_missing,
                                  .stdout_fd = out[1],
                                  .stderr_fd = out[1]};
  struct spawn *spawn = spawn_new(&self->defaults, &request, &self->error);
  assert_non_null(spawn);
  close(out[1]);
  size_t length = 0;
  for (ssize_t n; (n = read(out[0], self->output + length, sizeof self->output - 1 - length)) > 0;)
    length += (size_t)n;
  self->output[length] = '\0';
  close(out[0]);
  pid_t pid = spawn_pid(spawn);
  assert_int_equal(waitpid(pid, &self->status, 0), pid);
  assert_true(spawn_is_detached(spawn, 0));
  if (spawn_failed(spawn, &self->error)) {
    assert_int_equal(WEXITSTATUS(self->status), 127);
    pid = -1;
  }
  spawn_free(spawn);
  return pid;
}

static void says(struct trial *self, const char *directory, char *const *argv, char *const *envp,
                 const char *expected) {
  assert_true(run_in(self, directory, argv, envp) > 0);
  assert_int_equal(self->status, 0);
  assert_string_equal(self->output, expected);
}

static void script_says(struct trial *self, char *script, const char *expected) {
  char *argv[] = {"sh", "-c", script, NULL};
  says(self, NULL, argv, environ, expected);
}

/* A file in the trial's directory, and a PATH that begins there. */
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
  int descriptors = proc_fd_count(getpid());
  char *argv[] = {command, NULL};
  char *envp[] = {path, NULL};
  assert_int_equal(run_in(self, directory, argv, envp), -1);
  if (strstr(self->error.text, expected) == NULL)
    assert_string_equal(self->error.text, expected);
  assert_int_equal(waitpid(-1, NULL, 0), -1); /* no child is left */
  assert_int_equal(errno, ECHILD);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

TRIAL_TEST(arguments_arrive_untouched) {
  char *argv[] = {
      "sh",    "-c", "for a; do printf '[%s]' \"$a\"; done", "sh", "a b", "", "*", "$HOME",
      "\n\"'", NULL};
  says(trial, NULL, argv, environ, "[a b][][*][$HOME][\n\"']");
}

TRIAL_TEST(environment_is_what_was_given) {
  char *argv[] = {"env", NULL};
  char *envp[] = {"A=1", "PATH=/usr/bin:/bin", "EMPTY=", NULL};
  says(trial, NULL, argv, envp, "A=1\nPATH=/usr/bin:/bin\nEMPTY=\n");
}

TRIAL_TEST(both_streams_are_where_they_were_sent) {
  script_says(trial, "echo out; echo err >&2", "out\nerr\n");
}

TRIAL_TEST(stdin_is_empty) {
  script_says(trial, "cat; echo end", "end\n");
}

TRIAL_TEST(it_leads_a_session_of_its_own) {
  char *argv[] = {"cut", "-d ", "-f1,5,6", "/proc/self/stat", NULL};
  assert_true(run_in(trial, NULL, argv, environ) > 0);
  int pid;
  int group;
  int session;
  assert_int_equal(sscanf(trial->output, "%d %d %d", &pid, &group, &session), 3);
  assert_int_equal(group, pid);
  assert_int_equal(session, pid);
}

TRIAL_TEST(no_signal_is_blocked_or_handled) {
  char *argv[] = {"sed", "-n", "/^SigBlk/p;/^SigCgt/p", "/proc/self/status", NULL};
  says(trial, NULL, argv, environ, "SigBlk:\t0000000000000000\nSigCgt:\t0000000000000000\n");
}

TRIAL_TEST(no_other_descriptor_is_open) {
  int more[] = {fcntl(0, F_DUPFD_CLOEXEC, 40), fcntl(0, F_DUPFD_CLOEXEC, 400)};
  char *argv[] = {"ls", "/proc/self/fd", NULL};
  assert_true(run_in(trial, NULL, argv, environ) > 0);
  assert_string_equal(trial->output, "0\n1\n2\n3\n"); /* 3 is the directory that is listed */
  close(more[0]);
  close(more[1]);
}

TRIAL_TEST(limit_of_open_files_is_the_given_one) {
  trial->defaults.open_files.rlim_cur = 123;
  script_says(trial, "ulimit -n", "123\n");
}

TRIAL_TEST(directory_is_the_given_one_or_our_own) {
  char *argv[] = {"pwd", NULL};
  says(trial, "/usr", argv, environ, "/usr\n");
  assert_true(run_in(trial, NULL, argv, environ) > 0);
  char *own = getcwd(NULL, 0);
  assert_int_equal(strncmp(trial->output, own, strlen(own)), 0);
  free(own);
}

TRIAL_TEST(path_is_that_of_the_child) {
  make_file(trial, "only-here", "#!/bin/sh\necho found\n", 0755);
  char path[64];
  snprintf(path, sizeof path, "PATH=/nowhere:/dev/null:%s", trial->directory.path);
  char *argv[] = {"only-here", NULL};
  char *envp[] = {path, NULL};
  says(trial, NULL, argv, envp, "found\n");
  refused(trial, NULL, "only-here", "PATH=/nowhere", "only-here: command not found on PATH");
}

TRIAL_TEST(search_goes_on_behind_what_may_not_run) {
  make_file(trial, "true", "#!/bin/sh\necho wrong\n", 0644);
  char path[64];
  snprintf(path, sizeof path, "PATH=%s:/bin", trial->directory.path);
  char *argv[] = {"true", NULL};
  char *envp[] = {path, NULL};
  says(trial, NULL, argv, envp, "");
  path[strlen(path) - strlen("/bin")] = '\0'; /* leaves "dir:": the current directory is last */
  refused(trial, "/", "true", path, "not executable");
}

TRIAL_TEST(empty_path_entry_is_the_childs_directory) {
  make_file(trial, "here", "#!/bin/sh\necho found\n", 0755);
  char *paths[] = {"PATH=", "PATH=:/nowhere", "PATH=/nowhere:", "PATH=/nowhere::/nowhere"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    char *argv[] = {"here", NULL};
    char *envp[] = {paths[i], NULL};
    says(trial, trial->directory.path, argv, envp, "found\n");
  }
}

TRIAL_TEST(without_a_path_the_usual_places_are_searched) {
  char *argv[] = {"echo", "found", NULL};
  char *envp[] = {NULL};
  says(trial, NULL, argv, envp, "found\n");
}

TRIAL_TEST(slash_means_no_search) {
  make_file(trial, "here", "#!/bin/sh\necho found\n", 0755);
  char *argv[] = {"./here", NULL};
  says(trial, trial->directory.path, argv, environ, "found\n");
  refused(trial, NULL, "bin/true", "PATH=/:/usr", "bin/true: no such file");
}

TRIAL_TEST(what_cannot_start_says_why) {
  make_file(trial, "plain", "text", 0644);
  make_file(trial, "orphan", "#!/no/such/interpreter\n", 0755);
  make_file(trial, "noise", "no program", 0755);
  refused(trial, trial->directory.path, "./plain", "PATH=", "not executable");
  refused(trial, trial->directory.path, "./orphan",
          "PATH=", "it exists, but its interpreter /no/such/interpreter does not");
  refused(trial, trial->directory.path, "orphan", "PATH=", "/no/such/interpreter");
  refused(trial, trial->directory.path, "./noise", "PATH=", "exec format error");
  refused(trial, NULL, "/usr", "PATH=", "it is a directory");
  refused(trial, "/no/such/place", "true", "PATH=/bin",
          "working directory /no/such/place: No such file or directory");
  refused(trial, "/bin/true", "true", "PATH=/bin", "working directory /bin/true: Not a directory");
  char *huge = malloc(200001);
  memset(huge, 'x', 200000);
  huge[200000] = '\0';
  refused(trial, NULL, "/bin/true", huge, "arguments and environment are too long");
  free(huge);
}

TRIAL_TEST(a_first_line_that_leads_nowhere_is_explained) {
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

TRIAL_TEST(a_path_that_is_too_long_is_said_to_be) {
  char *path = malloc(4097);
  memset(path, '/', 4096);
  path[4096] = '\0';
  refused(trial, NULL, path, "PATH=", "the path, or a name in it, is too long");
  refused(trial, NULL, path + 4096 - 300, "PATH=/bin", "it is a directory");
  free(path);
}

TRIAL_TEST(a_directory_that_may_be_missing_is_passed_over) {
  char *argv[] = {"pwd", NULL};
  char *own = getcwd(NULL, 0);
  trial->may_be_missing = true;
  assert_true(run_in(trial, "/no/such/place", argv, environ) > 0);
  assert_int_equal(strncmp(trial->output, own, strlen(own)), 0);
  assert_true(run_in(trial, "/bin/true", argv, environ) > 0);
  assert_int_equal(strncmp(trial->output, own, strlen(own)), 0);
  says(trial, "/usr", argv, environ, "/usr\n");
  /* What is relative is then not shown below a directory that is not there. */
  refused(trial, "/no/such/place", "./gone", "PATH=", "cannot run ./gone: no such file");
  refused(trial, "/usr", "./gone", "PATH=", "cannot run /usr/./gone: no such file");
  free(own);
}

/* The sanitizers look for what they left in memory. */
TRIAL_TEST(many_leave_nothing_behind) {
  int descriptors = proc_fd_count(getpid());
  char *argv[] = {"/bin/true", NULL};
  char *envp[] = {NULL};
  struct spawn_request request = {
      .argv = argv, .envp = envp, .directory = "/", .stdout_fd = 1, .stderr_fd = 2};
  for (int i = 0; i < STARTS; i++) {
    request.memory = malloc(16);
    struct spawn *spawn = spawn_new(&trial->defaults, &request, &trial->error);
    assert_non_null(spawn);
    assert_int_equal(waitpid(spawn_pid(spawn), &trial->status, 0), spawn_pid(spawn));
    assert_int_equal(trial->status, 0);
    assert_false(spawn_failed(spawn, &trial->error));
    spawn_free(spawn);
  }
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TRIAL_TEST(without_a_process_it_says_so) {
  pid_t user = fork();
  if (user == 0) {
    char *argv[] = {"true", NULL};
    struct spawn_request request = {
        .argv = argv, .envp = environ, .memory = malloc(16), .stdout_fd = 1, .stderr_fd = 2};
    const struct rlimit none = {0};
    assert_int_equal(setrlimit(RLIMIT_NPROC, &none), 0);
    assert_int_equal(setuid(65534), 0);
    assert_null(spawn_new(&trial->defaults, &request, &trial->error));
    assert_string_equal(trial->error.text, "cannot start true: Resource temporarily unavailable");
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(user, &status, 0), user);
  assert_int_equal(status, 0);
}

/* Starts it in an agent, which ends at once. */
static void dies_with_the_agent(struct trial *trial, char *const *argv, bool waits) {
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid_t agent = fork();
  if (agent == 0) {
    struct spawn_request request = {
        .argv = argv, .envp = environ, .stdout_fd = ends[1], .stderr_fd = ends[1], .waits = waits};
    pid_t pid = waits ? spawn_pid(spawn_new(&trial->defaults, &request, &trial->error))
                      : spawned(&trial->defaults, &request); /* which executes */
    _exit(write(ends[1], &pid, sizeof pid) != (ssize_t)sizeof pid);
  }
  close(ends[1]);
  pid_t pid = 0;
  assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
  assert_true(pid > 0);
  assert_int_equal(waitpid(agent, NULL, 0), agent);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
  char byte;
  assert_int_equal(read(ends[0], &byte, 1), 0); /* nothing was written */
  close(ends[0]);
}

TRIAL_TEST(it_dies_with_the_agent) {
  char *argv[] = {"sleep", "1000", NULL};
  dies_with_the_agent(trial, argv, false);
}

/* While it waits, too: it is not to execute when nobody knows it. */
TRIAL_TEST(one_that_waits_dies_with_the_agent) {
  char *argv[] = {"sh", "-c", "echo ran", NULL};
  dies_with_the_agent(trial, argv, true);
}
