/* What a kill sequence makes of its scans: the process tree is the test's own. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/kill_sequence.h"
#include "tests/support/loop.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* Longer than a test may take: a grace that must not be waited for. */
#define FOREVER_MS 3600000

struct scene {
  struct loop loop;
  struct process_tree tree;
  struct kill_sequence kill;
  const char *living;  /* a digit for each scan to come; behind the last: 0 */
  const char *orphans; /* the same: how many were reaped since the scan before */
  pid_t orphan;        /* stands for each of them; it has a session of its own */
  bool strange;        /* the orphans are another tree's */
  bool beside;         /* another command runs */
  int terms;
  int scans; /* SIGKILL and 0 */
  int kills;
  int chases;
  int gone;
  size_t survivors;
};

static struct scene *scene_of(const struct process_tree *tree) {
  return (struct scene *)((uintptr_t)tree - offsetof(struct scene, tree));
}

static int next(const char **digits) {
  return *digits == NULL || **digits == '\0' ? 0 : *(*digits)++ - '0';
}

size_t process_tree_signal(const struct process_tree *tree, int signal) {
  struct scene *scene = scene_of(tree);
  if (signal == SIGTERM) {
    scene->terms++;
    return 1;
  }
  scene->scans++;
  scene->kills += signal == SIGKILL;
  for (int orphans = next(&scene->orphans); orphans > 0; orphans--) {
    kill_sequence_child_ended(&scene->kill, scene->orphan);
    kill_sequence_orphan_reaped(&scene->kill);
  }
  return (size_t)next(&scene->living);
}

bool process_tree_is_beside(const struct process_tree *tree) {
  return scene_of(tree)->beside;
}

bool process_tree_may_hold(const struct process_tree *tree, pid_t session) {
  assert_int_equal(session, scene_of(tree)->orphan);
  return !scene_of(tree)->strange;
}

void process_tree_chase(const struct process_tree *tree, int milliseconds) {
  assert_true(milliseconds > 0);
  scene_of(tree)->chases++;
}

static void on_gone(void *owner, size_t survivors) {
  struct scene *scene = owner;
  scene->gone++;
  scene->survivors = survivors;
}

static bool leads_its_session(void *pid) {
  return getsid(*(pid_t *)pid) == *(pid_t *)pid;
}

/* The test's own session may be outside of its pid namespace, and then is 0. */
static pid_t start_session(void) {
  pid_t pid = fork();
  if (pid == 0) {
    (void)setsid();
    for (;;)
      (void)pause();
  }
  assert_true(pid > 0);
  assert_true(wait_until(leads_its_session, &pid, WAIT_BOUND_MS));
  return pid;
}

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  scene->orphan = start_session();
  loop_init(&scene->loop);
  kill_sequence_init(&scene->kill, scene->loop.base, &scene->tree, on_gone, scene);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  (void)kill(scene->orphan, SIGKILL);
  (void)waitpid(scene->orphan, NULL, 0);
  kill_sequence_release(&scene->kill);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

/* Runs it to its end; so many scans it takes. */
static void takes(struct scene *scene, int64_t grace_ms, int scans) {
  scene->gone = scene->scans = 0;
  kill_sequence_start(&scene->kill, grace_ms);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->gone));
  loop_settle(&scene->loop);
  assert_int_equal(scene->gone, 1);
  assert_int_equal(scene->scans, scans);
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

SCENE_TEST(two_scans_in_a_row_find_nobody) {
  static const struct {
    const char *promise;
    const char *living, *orphans;
    int64_t grace_ms;
    int scans, terms, kills, chases;
  } rows[] = {
      {"one that finds nobody is not enough", NULL, NULL, 0, 2, 0, 2, 0},
      {"the two follow each other", "3010", NULL, 0, 5, 0, 5, 0},
      {"the grace ends when nobody is there", "1101", NULL, FOREVER_MS, 6, 1, 0, 0},
      /* What was reaped although nobody was seen has children that the scan did not see either. */
      {"orphans mean that somebody is there", NULL, "0102", 0, 6, 0, 6, 2},
      {"during the grace they are not chased", NULL, "11", FOREVER_MS, 4, 1, 0, 0},
      {"with somebody in sight they are not chased", "2", "2", 0, 3, 0, 3, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s\n", rows[i].promise);
    scene->living = rows[i].living;
    scene->orphans = rows[i].orphans;
    scene->terms = scene->kills = scene->chases = 0;
    takes(scene, rows[i].grace_ms, rows[i].scans);
    assert_int_equal(scene->survivors, 0);
    assert_int_equal(scene->terms, rows[i].terms);
    assert_int_equal(scene->kills, rows[i].kills);
    assert_int_equal(scene->chases, rows[i].chases);
  }
}

SCENE_TEST(the_end_of_strangers_proves_nothing) {
  scene->orphans = "0102";
  scene->strange = true;
  takes(scene, 0, 2);
  scene->strange = false;
  takes(scene, 0, 4);
}

SCENE_TEST(a_second_run_counts_from_the_beginning) {
  takes(scene, 0, 2);
  takes(scene, 0, 2);
  scene->orphans = "01";
  takes(scene, FOREVER_MS, 4);
}

static const char *always(void) {
  static char ones[4096];
  memset(ones, '1', sizeof ones - 1);
  return ones;
}

/* They may be those of a command that runs beside. */
SCENE_TEST(orphans_without_an_end_may_be_of_another_one) {
  scene->orphans = always();
  scene->beside = true;
  kill_sequence_start(&scene->kill, 0);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->gone));
  assert_int_equal(scene->survivors, 0);
  assert_true(scene->chases >= 2);
}

SCENE_TEST(orphans_without_an_end_are_given_up) {
  scene->orphans = always();
  int64_t start_ms = wait_now_ms();
  kill_sequence_start(&scene->kill, 0);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->gone));
  assert_true(wait_now_ms() - start_ms >= KILL_SEQUENCE_GIVE_UP_MS);
  assert_int_equal(scene->gone, 1);
  assert_int_equal(scene->survivors, 1);
  assert_true(scene->chases >= 2);
}
