#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/process/supervisors.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/test.h"

struct scene {
  struct loop loop;
  struct supervisors *supervisors;
  int writer; /* -1 when closed */
  size_t written;
};

static struct supervisors *make_supervisors(const struct scene *self) {
  const struct supervisors_options options = {.base = self->loop.base};
  return supervisors_new(&options);
}

/* A pipe whose reading end was adopted. */
static void adopt(struct scene *self) {
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  supervisors_drain(self->supervisors, ends[0]);
  self->writer = ends[1];
}

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  scene->supervisors = make_supervisors(scene);
  scene->writer = -1;
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  supervisors_free(scene->supervisors);
  if (scene->writer >= 0)
    close(scene->writer);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

/* Many times what a pipe holds: it ends only when somebody reads. */
static bool wrote_much(void *context) {
  static const char bytes[10000];
  struct scene *scene = context;
  ssize_t n = write(scene->writer, bytes, sizeof bytes);
  assert_true(n > 0 || errno == EAGAIN);
  scene->written += n > 0 ? (size_t)n : 0;
  return scene->written > 2000000;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

SCENE_TEST(what_is_written_is_thrown_away) {
  adopt(scene);
  assert_true(loop_until(&scene->loop, wrote_much, scene));
}

SCENE_TEST(a_pipe_is_closed_behind_its_last_writer) {
  adopt(scene);
  int first = scene->writer;
  int descriptors = proc_fd_count(getpid());
  adopt(scene);
  assert_int_equal(write(scene->writer, "x", 1), 1);
  close(scene->writer);
  scene->writer = first;
  loop_settle(&scene->loop);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
  assert_true(loop_until(&scene->loop, wrote_much, scene)); /* the other one is not touched */
}

SCENE_TEST(all_are_closed_at_the_end) {
  adopt(scene);
  supervisors_free(scene->supervisors);
  assert_int_equal(write(scene->writer, "x", 1), -1);
  assert_int_equal(errno, EPIPE);
  scene->supervisors = make_supervisors(scene);
}
