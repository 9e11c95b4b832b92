#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/kill_sequence.h"
#include "agent/process/spawn.h"
#include "tests/support/as_user.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/support/spawned.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* Longer than a test may take: a grace that must not be waited for. */
#define FOREVER_MS 3600000

struct scene {
  struct loop loop;
  struct spawn_defaults defaults;
  struct process_tree tree;
  struct kill_sequence kill;
  int gone; /* calls */
  size_t survivors;
  int output;
  pid_t leader;
  int status; /* of the leader */
};

static void on_gone(void *owner, size_t survivors) {
  struct scene *scene = owner;
  scene->gone++;
  scene->survivors = survivors;
}

static void start(struct scene *self, char *script) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  char *argv[] = {"sh", "-c", script, NULL};
  struct spawn_request request = {
      .argv = argv, .envp = environ, .stdout_fd = out[1], .stderr_fd = out[1]};
  self->leader = spawned(&self->defaults, &request);
  close(out[1]);
  if (self->output >= 0)
    close(self->output);
  self->output = out[0];
}

static void on_reaped(void *owner, pid_t pid, int status) {
  struct scene *scene = owner;
  if (pid == scene->leader)
    scene->status = status;
}

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  scene->loop.reaped = on_reaped;
  scene->loop.owner = scene;
  scene->defaults.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  getrlimit(RLIMIT_NOFILE, &scene->defaults.open_files);
  scene->output = -1;
  kill_sequence_init(&scene->kill, scene->loop.base, &scene->tree, on_gone, scene);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  kill_sequence_release(&scene->kill);
  close(scene->defaults.stdin_fd);
  if (scene->output >= 0)
    close(scene->output);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

/* All that the script wrote, up to the line it says when it is ready, or to its end. */
static void reads(struct scene *self, const char *expected) {
  char text[64] = "";
  for (size_t at = 0; at < strlen(expected);) {
    ssize_t n = read(self->output, text + at, sizeof text - 1 - at);
    assert_true(n > 0);
    at += (size_t)n;
  }
  assert_string_equal(text, expected);
}

static bool is_reaped(void *context) {
  const struct scene *scene = context;
  return scene->gone > 0 && scene->status != 0;
}

static void await_end(struct scene *self) {
  assert_true(loop_until(&self->loop, is_reaped, self));
}

/* Starts one that says when it is ready; a shell's own words are not among its output. */
static void start_ready(struct scene *self, char *script) {
  start(self, script);
  reads(self, "ready\n");
}

#define STUBBORN "exec 2>&-; trap '' TERM; echo ready; "
#define LOOP "while :; do sleep 0.01; done"

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

SCENE_TEST(nobody_is_gone_at_once_but_not_from_inside) {
  kill_sequence_start(&scene->kill, FOREVER_MS);
  assert_int_equal(scene->gone, 0);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->gone));
  loop_settle(&scene->loop);
  assert_int_equal(scene->gone, 1);
  assert_int_equal(scene->survivors, 0);
}

SCENE_TEST(sigterm_is_enough_for_the_polite) {
  start_ready(scene, "exec 2>&-; trap 'echo bye; exit 3' TERM; echo ready; " LOOP);
  kill_sequence_start(&scene->kill, FOREVER_MS);
  await_end(scene);
  reads(scene, "bye\n");
  assert_int_equal(WEXITSTATUS(scene->status), 3);
  assert_int_equal(scene->survivors, 0);
}

SCENE_TEST(the_stubborn_are_killed_after_the_grace) {
  start_ready(scene, STUBBORN "setsid sleep 2002 & " LOOP);
  assert_true(proc_wait_for("sleep 2002", WAIT_BOUND_MS) > 0);
  int64_t start_ms = wait_now_ms();
  kill_sequence_start(&scene->kill, 300);
  await_end(scene);
  assert_true(wait_now_ms() - start_ms >= 299);
  assert_int_equal(WTERMSIG(scene->status), SIGKILL);
  assert_int_equal(scene->survivors, 0);
  assert_int_equal(proc_find("sleep 2002"), 0);
}

SCENE_TEST(without_a_grace_there_is_no_sigterm) {
  start_ready(scene, "exec 2>&-; trap 'echo term' TERM; echo ready; " LOOP);
  kill_sequence_start(&scene->kill, 0);
  await_end(scene);
  assert_int_equal(WTERMSIG(scene->status), SIGKILL);
  char byte;
  assert_int_equal(read(scene->output, &byte, 1), 0);
}

SCENE_TEST(a_further_call_can_shorten_the_grace) {
  start_ready(scene, STUBBORN LOOP);
  kill_sequence_start(&scene->kill, FOREVER_MS);
  loop_settle(&scene->loop);
  assert_int_equal(scene->gone, 0);
  kill_sequence_start(&scene->kill, 0);
  await_end(scene);
  loop_settle(&scene->loop);
  assert_int_equal(scene->gone, 1);
}

SCENE_TEST(a_further_call_cannot_lengthen_it) {
  start_ready(scene, STUBBORN LOOP);
  kill_sequence_start(&scene->kill, 20);
  kill_sequence_start(&scene->kill, FOREVER_MS);
  await_end(scene);
  assert_int_equal(scene->gone, 1);
}

SCENE_TEST(what_is_started_on_the_way_is_found_too) {
  start_ready(scene, STUBBORN "while :; do setsid sleep 2003 & sleep 0.005; done");
  kill_sequence_start(&scene->kill, 50);
  await_end(scene);
  assert_int_equal(scene->survivors, 0);
  assert_int_equal(proc_find("sleep 2003"), 0);
}

/* Another user's stands for a process that is stuck in the kernel. */
SCENE_TEST(what_survives_is_given_up_and_counted) {
  start_ready(scene,
              "exec setpriv --reuid 65533 --clear-groups sh -c 'echo ready; exec sleep 2001'");
  int64_t start_ms = wait_now_ms();
  assert_int_equal(seteuid(NOBODY), 0);
  kill_sequence_start(&scene->kill, 0);
  bool is_gone = loop_until(&scene->loop, loop_is_counted, &scene->gone);
  assert_int_equal(seteuid(0), 0);
  assert_true(is_gone);
  assert_true(wait_now_ms() - start_ms >= KILL_SEQUENCE_GIVE_UP_MS);
  assert_int_equal(scene->gone, 1);
  assert_int_equal(scene->survivors, 1);
}

SCENE_TEST(it_can_be_started_again) {
  kill_sequence_start(&scene->kill, 0);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->gone));
  scene->gone = 0;
  start(scene, "exec sleep 2004");
  kill_sequence_start(&scene->kill, FOREVER_MS);
  await_end(scene);
  assert_int_equal(WTERMSIG(scene->status), SIGTERM);
}
