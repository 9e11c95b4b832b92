/* The rules for every kind that works in a forked child, with kinds made for these tests. */
#include <sys/resource.h>

#include "agent/kinds/kind.h"
#include "tests/support/step_owner.h"
#include "tests/test.h"

static int say(struct output *output, const char *text) {
  buffer_add_string(&output->content, text);
  return 0;
}

#define WORK(NAME)                                                                                 \
  static int NAME(__attribute__((unused)) const struct step *step,                                 \
                  __attribute__((unused)) struct output *output,                                   \
                  __attribute__((unused)) struct error *error)

WORK(echo) {
  return say(output, step->target);
}

WORK(nothing) {
  return 0;
}

WORK(warning) {
  kind_warn(output, "", "noted %s", step->target);
  return say(output, "content");
}

WORK(note_more) {
  kind_warn(output, "", "noted %s", step->target);
  kind_warn_unread(output, 0);
  kind_warn_unread(output, 3);
  return 0;
}

/* More than fits into a line. */
WORK(note_much) {
  kind_warn(output, "", "first %0*d last", 300, 0);
  return note_more(step, output, error);
}

/* A name of a file may have a line ending. */
WORK(forge) {
  kind_warn(output, "", "not read: a\nnothing\x1B");
  return error_set(error, "no such thing: a\r\nb");
}

WORK(forge_note) {
  (void)forge(step, output, error);
  return 0;
}

WORK(refuse) {
  (void)say(output, "half of it");
  return error_set(error, "no such thing: %s", step->target);
}

WORK(crash) {
  (void)raise(SIGKILL); /* a sanitizer would catch SIGSEGV */
  return 0;
}

/* The properties of the process that a command could observe. */
WORK(look) {
  for (int fd = 0; fd < 4096; fd++)
    if (fcntl(fd, F_GETFD) >= 0) {
      buffer_add_number(&output->content, (unsigned long long)fd);
      buffer_add_string(&output->content, " ");
    }
  char byte;
  struct rlimit core;
  sigset_t blocked;
  (void)getrlimit(RLIMIT_CORE, &core);
  (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
  buffer_add_string(&output->content, read(STDIN_FILENO, &byte, 1) == 0 ? "empty " : "not empty ");
  buffer_add_string(&output->content, getsid(0) == getpid() ? "leader " : "member ");
  buffer_add_string(&output->content, core.rlim_cur == 0 ? "coreless " : "core ");
  return say(output, sigismember(&blocked, SIGTERM) == 0 ? "open" : "blocked");
}

#define KIND(function)                                                                             \
  { .wire = {.name = #function, .target = "path"}, .work = (function) }

static const struct kind test_kinds[] = {
    KIND(echo),
    KIND(nothing),
    KIND(warning),
    KIND(note_more),
    KIND(note_much),
    KIND(forge),
    KIND(forge_note),
    KIND(refuse),
    KIND(crash),
    KIND(look),
    {.wire = {.name = "blank", .target = "path"}, .work = nothing, .has_content = true},
};

enum { TEST_KINDS = sizeof test_kinds / sizeof *test_kinds };

static const struct step_kind *known[TEST_KINDS + 1];

static int work(char *packed, size_t length) {
  return kind_work_packed(known, packed, length);
}

/* `fields` follow the ID, with quotes as in quoted.h. */
static void make(struct step_owner *owner, const char *fields) {
  for (size_t i = 0; i < TEST_KINDS; i++)
    known[i] = &test_kinds[i].wire;
  step_owner_use_kinds(owner, known, work);
  step_owner_make(owner, quoted(formatted("{'stepId':'s-1',%s}", fields)));
}

static void start_fields(struct step_owner *owner, const char *fields) {
  make(owner, fields);
  execution_start(owner->execution);
}

static void start(struct step_owner *owner, const char *kind, const char *more) {
  start_fields(owner, formatted("'kind':'%s','path':'/the/path'%s", kind, more));
}

STEP_TEST(the_output_of_a_kind_becomes_result_and_events) {
  static const struct {
    const char *promise, *kind;
    int exit_code;
    const char *error, *content;
    const char *events; /* between the first and the last */
  } rows[] = {
      {"output is content and no event", "echo", 0, NULL, "/the/path", ""},
      {"no content is null", "nothing", 0, NULL, NULL, ""},
      {"unless the kind says so", "blank", 0, NULL, "", ""},
      {"a warning is an event", "warning", 0, NULL, "content", "stderr noted /the/path\n"},
      {"each warning is an event", "note_more", 0, NULL, NULL,
       "stderr noted /the/path\nstderr 3 directories could not be looked into\n"},
      {"a warning is one event, whatever is in it", "forge_note", 0, NULL, NULL,
       "stderr not read: a\uFFFDnothing\uFFFD\n"},
      {"and so is a failure", "forge", 1, "no such thing: a\uFFFD\uFFFDb", NULL,
       "stderr no such thing: a\uFFFD\uFFFDb\n"},
      {"a failure has its reason and no content", "refuse", 1, "no such thing: /the/path", NULL,
       "stderr no such thing: /the/path\n"},
      {"a crash ends the step alone", "crash", 137, "killed by signal 9 (SIGKILL)", NULL, ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char events[256];
    (void)snprintf(events, sizeof events,
                   "started %s /the/path\n%scompleted exit=%d timedOut=False\n", rows[i].kind,
                   rows[i].events, rows[i].exit_code);
    print_message("%s\n", rows[i].promise);
    start(owner, rows[i].kind, "");
    step_owner_ends(owner, rows[i].exit_code, rows[i].error, rows[i].content);
    assert_string_equal(owner->events, events);
  }
}

STEP_TEST(the_title_is_one_line_of_bounded_length) {
  start_fields(owner, "'kind':'echo','path':'/a\\nb\\r\\nc'");
  assert_string_equal(owner->events, "started echo /a b  c\n");
  step_owner_ends(owner, 0, NULL, "/a\nb\r\nc");

  start_fields(owner, formatted("'kind':'nothing','path':'/%0*d'", 2 * KIND_TITLE_MAX, 0));
  assert_int_equal(strlen(owner->events), strlen("started nothing \n") + KIND_TITLE_MAX);
  step_owner_wait(owner);

  /* The last character that would fit is not split. */
  start_fields(owner, formatted("'kind':'nothing','path':'/%0*d\u00e4%0*d'", KIND_TITLE_MAX - 2, 0,
                                KIND_TITLE_MAX, 0));
  assert_int_equal(strlen(owner->events), strlen("started nothing \n") + KIND_TITLE_MAX - 1);
  step_owner_wait(owner);
}

STEP_TEST(a_long_warning_is_cut_in_its_middle) {
  start(owner, "note_much", "");
  step_owner_ends(owner, 0, NULL, NULL);
  assert_non_null(strstr(owner->events, "stderr first 000"));
  assert_non_null(strstr(owner->events, "\u2026"));
  assert_non_null(strstr(owner->events, "000 last\nstderr noted /the/path\nstderr 3 directories "));
}

STEP_TEST(the_child_is_set_up_like_a_command) {
  int other = open("/dev/null", O_RDONLY);
  assert_true(other > STDERR_FILENO);
  start(owner, "look", "");
  step_owner_ends(owner, 0, NULL, "0 1 2 3 4 empty leader coreless blocked");
  close(other);
}
