#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process_table.h"
#include "agent/process/process_tree.h"
#include "agent/process/spawn.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/spawned.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* In a script of the step: the tag of the step before it. */
#define EARLIER_TAG PROCESS_TREE_TAG "=${" PROCESS_TREE_TAG "%-*}-1"

/* The agent, with one step running in it. */
struct scene {
  struct loop loop;
  struct spawn_defaults defaults;
  struct process_tree tree;
  char tag[32];         /* of the step; nobody else on this machine has it */
  char earlier_tag[32]; /* of the one before it */
  int output;           /* of the step's command */
};

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  scene->defaults.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  getrlimit(RLIMIT_NOFILE, &scene->defaults.open_files);
  scene->output = -1;
  snprintf(scene->tag, sizeof scene->tag, "%d-77-2", (int)getpid());
  snprintf(scene->earlier_tag, sizeof scene->earlier_tag, "%d-77-1", (int)getpid());
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  close(scene->defaults.stdin_fd);
  if (scene->output >= 0)
    close(scene->output);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

/* Starts `sh -c script` with the tag. */
static pid_t start(struct scene *self, const char *tag, char *script) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  char variable[64];
  snprintf(variable, sizeof variable, PROCESS_TREE_TAG "=%s", tag);
  char *argv[] = {"sh", "-c", script, NULL};
  char *envp[] = {variable, "PATH=/usr/bin:/bin", NULL};
  struct spawn_request request = {
      .argv = argv, .envp = envp, .stdout_fd = out[1], .stderr_fd = out[1]};
  pid_t pid = spawned(&self->defaults, &request);
  close(out[1]);
  if (self->output >= 0)
    close(self->output);
  self->output = out[0];
  return pid;
}

static void start_step(struct scene *self, char *script) {
  uint64_t since_ticks = process_tree_now();
  self->tree = (struct process_tree){
      .tag = self->tag, .leader = start(self, self->tag, script), .since_ticks = since_ticks};
}

static bool clock_passed(void *ticks) {
  return process_tree_now() > *(const uint64_t *)ticks;
}

/* Something that an earlier step left behind, in the past of the next one by the kernel's clock. */
static pid_t leave_behind(struct scene *self, char *script, const char *command_line) {
  pid_t pid = start(self, self->earlier_tag, script);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  pid_t left = proc_wait_for(command_line, WAIT_BOUND_MS);
  assert_true(left > 0);
  uint64_t now = process_tree_now();
  assert_true(wait_until(clock_passed, &now, WAIT_BOUND_MS));
  return left;
}

static bool is_empty(void *tree) {
  return process_tree_signal(tree, SIGKILL) == 0;
}

/* All that is named belongs to the step, and nothing is left when it was killed. */
static void kills_all(struct scene *self, size_t expected, const char *command_line) {
  assert_true(proc_wait_for(command_line, WAIT_BOUND_MS) > 0);
  assert_int_equal(process_tree_signal(&self->tree, 0), expected);
  assert_true(wait_until(is_empty, &self->tree, WAIT_BOUND_MS));
  assert_true(proc_wait_gone(command_line, WAIT_BOUND_MS));
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

SCENE_TEST(there_is_no_way_out) {
  static const struct {
    const char *promise;
    char *script;
    size_t count;      /* with the leader, unless that has left */
    const char *child; /* of it */
  } rows[] = {
      {"children belong", "sleep 1001 & wait", 2, "sleep 1001"},
      {"with a session of their own", "setsid sleep 1002 & wait", 2, "sleep 1002"},
      {"with a cleared environment", "env -i sleep 1003 & wait", 2, "sleep 1003"},
      {"without their parent", "(setsid sleep 1004 &)", 1, "sleep 1004"},
      {"with all of it together", "(setsid env -i sleep 1005 &)", 1, "sleep 1005"},
      {"with the tag of an agent that runs inside",
       "(setsid env " PROCESS_TREE_TAG "=9-55-2 sleep 1006 &)", 1, "sleep 1006"},
      {"with the tag of an earlier step", "setsid env " EARLIER_TAG " sleep 1013 & wait", 2,
       "sleep 1013"},
      {"and without their parent", "(env " EARLIER_TAG " sleep 1014 &)", 1, "sleep 1014"},
      {"in a session that is known by another of its processes",
       "setsid sh -c '(env " EARLIER_TAG " sleep 1015 &); exec sleep 1016' & wait", 3,
       "sleep 1016"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s\n", rows[i].promise);
    start_step(scene, rows[i].script);
    pid_t leader = scene->tree.leader;
    if (rows[i].count == 1)
      assert_int_equal(waitpid(leader, NULL, 0), leader);
    kills_all(scene, rows[i].count, rows[i].child);
  }
}

SCENE_TEST(what_an_earlier_step_left_does_not_belong) {
  pid_t tagged = leave_behind(scene, "sleep 1007 &", "sleep 1007");
  pid_t cleared = leave_behind(scene, "env -i sleep 1008 &", "sleep 1008");
  start_step(scene, "sleep 1009 & wait");
  kills_all(scene, 2, "sleep 1009");
  assert_int_equal(proc_find("sleep 1007"), tagged);
  assert_int_equal(proc_find("sleep 1008"), cleared);
}

/* It has nothing of the daemon's but the session, in which the daemon is the older one. */
SCENE_TEST(nor_does_what_that_makes_during_the_step) {
  pid_t trigger = leave_behind(
      scene, "(exec 2>&-; sleep 1017; (env -i sleep 1018 &); exec sleep 1019) &", "sleep 1017");
  start_step(scene, "sleep 1020 & wait");
  assert_int_equal(kill(trigger, SIGKILL), 0);
  pid_t orphan = proc_wait_for("sleep 1018", WAIT_BOUND_MS);
  assert_true(proc_wait_for("sleep 1019", WAIT_BOUND_MS) > 0);
  assert_false(process_tree_may_hold(&scene->tree, getsid(orphan)));
  assert_true(process_tree_may_hold(&scene->tree, scene->tree.leader));
  kills_all(scene, 2, "sleep 1020");
  assert_int_equal(proc_find("sleep 1018"), orphan);
}

/* A step may begin in the tick in which the one before it has left something. */
SCENE_TEST(within_a_tick_the_tag_tells_whose_a_session_is) {
  static char *const scripts[] = {"sleep 1021 &", "setsid sleep 1021 &"};
  for (size_t i = 0; i < 2; i++) {
    pid_t left = leave_behind(scene, scripts[i], "sleep 1021");
    struct process_entry entry;
    assert_true(process_table_read_entry(left, &entry));
    start_step(scene, "sleep 1022 & wait");
    scene->tree.since_ticks = entry.started;
    assert_false(process_tree_may_hold(&scene->tree, entry.session));
    kills_all(scene, 2, "sleep 1022");
    assert_int_equal(kill(left, SIGKILL), 0);
    assert_true(proc_wait_gone("sleep 1021", WAIT_BOUND_MS));
  }
}

SCENE_TEST(without_a_tag_every_descendant_belongs) {
  leave_behind(scene, "sleep 1010 &", "sleep 1010");
  leave_behind(scene, "setsid env -i sleep 1011 &", "sleep 1011");
  struct process_tree everything = {0};
  assert_int_equal(process_tree_signal(&everything, 0), 2);
  assert_true(wait_until(is_empty, &everything, WAIT_BOUND_MS));
}

static bool is_zombie(void *context) {
  (void)context;
  int zombies;
  proc_child_count(getpid(), &zombies);
  return zombies == 1;
}

SCENE_TEST(a_zombie_is_not_living) {
  start_step(scene, ":");
  assert_true(wait_until(is_zombie, NULL, WAIT_BOUND_MS));
  assert_int_equal(process_tree_signal(&scene->tree, SIGTERM), 0);
}

static void read_exactly(struct scene *self, const char *expected) {
  char text[64] = "";
  for (size_t at = 0; at < strlen(expected);) {
    ssize_t n = read(self->output, text + at, strlen(expected) - at);
    assert_true(n > 0);
    at += (size_t)n;
  }
  assert_string_equal(text, expected);
}

SCENE_TEST(a_signal_comes_once) {
  start_step(scene, "trap 'echo usr1' USR1; trap 'echo end; exit' USR2; echo ready;"
                    "while :; do sleep 1 & wait; done 2>&-");
  read_exactly(scene, "ready\n");
  /* The shell, and the sleep of the moment. */
  assert_true(process_tree_signal(&scene->tree, SIGUSR1) >= 1);
  read_exactly(scene, "usr1\n");
  assert_true(process_tree_signal(&scene->tree, SIGUSR2) >= 1);
  read_exactly(scene, "end\n");
}

SCENE_TEST(who_holds_a_pipe_is_named) {
  char name[64] = "?";
  start_step(scene, "exec sleep 1012");
  pid_t pid = proc_wait_for("sleep 1012", WAIT_BOUND_MS);
  assert_int_equal(process_tree_pipe_holder(scene->output, name, sizeof name), 1);
  const char *expected = formatted("pid %d (sleep)", (int)pid);
  assert_string_equal(name, expected);
  char little[6];
  assert_int_equal(process_tree_pipe_holder(scene->output, little, sizeof little), 1);
  assert_int_equal(strncmp(little, expected, 5), 0);
  assert_true(wait_until(is_empty, &scene->tree, WAIT_BOUND_MS));
  assert_int_equal(process_tree_pipe_holder(scene->output, name, sizeof name), 0);
  assert_string_equal(name, "");
}
