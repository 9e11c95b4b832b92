/* Descriptors 0 and 1 of the test itself are the two ends of what a test gives it. */
#include "agent/doors/standard_io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/loop.h"
#include "tests/test.h"

struct trial {
  struct loop loop;
  struct standard_io *io;
  int saved[2]; /* the test's own standard input and output */
  int in;       /* where a test writes the input; -1: closed */
  int out;      /* where it reads the output; -1: closed */
  char text[256];
  size_t length; /* of all that has come, of which `text` has the beginning */
  int inputs, ended, written, broken;
  int error;
  bool pauses; /* after each input */
};

static void on_input(void *owner, const char *bytes, size_t length) {
  struct trial *self = owner;
  for (size_t i = 0; i < length && self->length + i < sizeof self->text - 1; i++)
    self->text[self->length + i] = bytes[i];
  self->length += length;
  self->inputs++;
  if (self->pauses)
    standard_io_read(self->io, false);
}

static void on_ended(void *owner) {
  ((struct trial *)owner)->ended++;
}

static void on_written(void *owner) {
  ((struct trial *)owner)->written++;
}

static void on_broken(void *owner, int error) {
  struct trial *self = owner;
  self->broken++;
  self->error = error;
  assert_int_equal(standard_io_unwritten(self->io), 0);
}

static const struct standard_io_handler handler = {
    .input = on_input, .input_ended = on_ended, .written = on_written, .broken = on_broken};

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  (void)fflush(stdout);
  for (int fd = 0; fd < 2; fd++)
    self->saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  loop_init(&self->loop);
  self->in = self->out = -1;
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct trial *self = *state;
  if (self->io != NULL)
    standard_io_free(self->io);
  close_fd(&self->in);
  close_fd(&self->out);
  for (int fd = 0; fd < 2; fd++) {
    assert_int_equal(dup2(self->saved[fd], fd), fd);
    fcntl(fd, F_SETFD, 0);
  }
  loop_release(&self->loop);
  close(self->saved[0]);
  close(self->saved[1]);
  free(self);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

/* They become descriptors 0 and 1, and are closed. */
static void open_with(struct trial *self, int in, int out) {
  assert_int_equal(dup2(in, STDIN_FILENO), STDIN_FILENO);
  assert_int_equal(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
  close(in);
  close(out);
  self->io = standard_io_new(self->loop.base, &handler, self);
}

static void open_pipes(struct trial *self) {
  int in[2], out[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  self->in = in[1];
  self->out = out[0];
  open_with(self, in[0], out[1]);
}

static void give(const struct trial *self, const char *text) {
  assert_int_equal(write(self->in, text, strlen(text)), strlen(text));
}

static void put(struct trial *self, char byte, size_t length) {
  memset(standard_io_space(self->io, length), byte, length);
}

/* Reads exactly so many bytes, all of which are this one; the loop runs meanwhile. */
static void expect_output(struct trial *self, char byte, size_t length) {
  static char bytes[65536];
  fcntl(self->out, F_SETFL, O_NONBLOCK);
  while (length > 0) {
    ssize_t n = read(self->out, bytes, length < sizeof bytes ? length : sizeof bytes);
    if (n < 0) {
      assert_int_equal(errno, EAGAIN);
      loop_settle(&self->loop);
      continue;
    }
    for (ssize_t i = 0; i < n; i++)
      assert_int_equal(bytes[i], byte);
    length -= (size_t)n;
  }
}

/* --- input ----------------------------------------------------------------------------------- */

TRIAL_TEST(a_pause_ends_with_the_next_order_to_read) {
  open_pipes(trial);
  trial->pauses = true;
  standard_io_read(trial->io, true);
  give(trial, "a");
  LOOP_UNTIL(&trial->loop, trial->inputs == 1);
  give(trial, "b");
  close_fd(&trial->in);
  loop_settle(&trial->loop);
  assert_int_equal(trial->inputs, 1);
  standard_io_read(trial->io, true);
  standard_io_read(trial->io, true);
  LOOP_UNTIL(&trial->loop, trial->inputs == 2);
  loop_settle(&trial->loop);
  assert_int_equal(trial->ended, 0); /* paused again */
  standard_io_read(trial->io, true);
  LOOP_UNTIL(&trial->loop, trial->ended == 1);
  standard_io_read(trial->io, true);
  loop_settle(&trial->loop);
  assert_int_equal(trial->ended, 1);
  assert_string_equal(trial->text, "ab");
}

/* epoll(7) refuses regular files. */
TRIAL_TEST(a_regular_file_is_read_and_pauses_too) {
  enum { LENGTH = 1000000 };
  int file = memfd_create("input", MFD_CLOEXEC);
  for (int i = 0; i < LENGTH / 100; i++)
    assert_int_equal(write(file,
                           "0123456789012345678901234567890123456789"
                           "012345678901234567890123456789012345678901234567890123456789",
                           100),
                     100);
  lseek(file, 0, SEEK_SET);
  open_with(trial, file, memfd_create("output", MFD_CLOEXEC));
  trial->pauses = true;
  standard_io_read(trial->io, true);
  LOOP_UNTIL(&trial->loop, trial->inputs == 1);
  loop_settle(&trial->loop);
  assert_int_equal(trial->inputs, 1);
  trial->pauses = false;
  standard_io_read(trial->io, true);
  LOOP_UNTIL(&trial->loop, trial->ended == 1);
  assert_int_equal(trial->length, LENGTH);
  assert_true(trial->inputs > 2);
}

TRIAL_TEST(a_socket_serves_as_both) {
  int in[2], out[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
  trial->in = in[1];
  trial->out = out[1];
  open_with(trial, in[0], out[0]);
  standard_io_read(trial->io, true);
  give(trial, "a");
  LOOP_UNTIL(&trial->loop, trial->inputs == 1);
  put(trial, 'x', 1 << 20);
  standard_io_flush(trial->io);
  assert_true(standard_io_unwritten(trial->io) > 0);
  expect_output(trial, 'x', 1 << 20);
  close_fd(&trial->in);
  LOOP_UNTIL(&trial->loop, trial->ended == 1);
  assert_int_equal(trial->broken, 0);
}

/* --- output ---------------------------------------------------------------------------------- */

/* Whoever waits for room need not know who has made it. */
TRIAL_TEST(what_is_written_at_once_is_told_from_the_loop_too) {
  open_with(trial, open("/dev/null", O_RDONLY | O_CLOEXEC),
            open("/dev/null", O_WRONLY | O_CLOEXEC));
  put(trial, 'x', 1 << 20);
  standard_io_flush(trial->io);
  assert_int_equal(standard_io_unwritten(trial->io), 0);
  assert_int_equal(trial->written, 0); /* not from inside of the flush */
  loop_settle(&trial->loop);
  assert_int_equal(trial->written, 1);
}

TRIAL_TEST(nothing_is_told_when_nothing_is_written) {
  open_pipes(trial);
  standard_io_flush(trial->io);
  loop_settle(&trial->loop);
  assert_int_equal(trial->written, 0);
  put(trial, 'x', 1 << 20);
  standard_io_flush(trial->io);
  loop_settle(&trial->loop);
  int written = trial->written;
  standard_io_flush(trial->io); /* the pipe is full */
  loop_settle(&trial->loop);
  assert_int_equal(trial->written, written);
}

/* Whatever the order of writing and reading is, each byte comes once. */
TRIAL_TEST(pieces_of_any_size_come_in_order) {
  static const size_t sizes[] = {1, 4095, 70000, 3, 200000, 4097, 65536, 2};
  open_pipes(trial);
  for (size_t round = 0; round < 6; round++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      put(trial, (char)('a' + i), sizes[i]);
      standard_io_flush(trial->io);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      expect_output(trial, (char)('a' + i), sizes[i]);
  }
}

/* Node.js gives its children sockets. */
TRIAL_TEST(a_socket_whose_peer_is_gone_is_noticed_without_a_write) {
  int out[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
  trial->out = out[1];
  open_with(trial, open("/dev/null", O_RDONLY | O_CLOEXEC), out[0]);
  loop_settle(&trial->loop);
  assert_int_equal(trial->broken, 0);
  close_fd(&trial->out);
  LOOP_UNTIL(&trial->loop, trial->broken == 1);
  assert_int_equal(trial->error, EPIPE);
}

TRIAL_TEST(a_peer_that_writes_no_more_may_read) {
  int out[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
  trial->out = out[1];
  open_with(trial, open("/dev/null", O_RDONLY | O_CLOEXEC), out[0]);
  assert_int_equal(shutdown(trial->out, SHUT_WR), 0);
  loop_settle(&trial->loop);
  put(trial, 'x', 10);
  standard_io_flush(trial->io);
  loop_settle(&trial->loop);
  assert_int_equal(trial->broken, 0);
  expect_output(trial, 'x', 10);
}

TRIAL_TEST(a_fifo_that_is_open_for_both_directions_has_a_reader) {
  int in[2], out[2];
  char path[32];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", out[1]);
  int both = open(path, O_RDWR | O_CLOEXEC);
  assert_true(both >= 0);
  close(out[1]);
  trial->in = in[1];
  trial->out = out[0];
  open_with(trial, in[0], both);
  put(trial, 'x', 10);
  standard_io_flush(trial->io);
  loop_settle(&trial->loop);
  assert_int_equal(trial->broken, 0);
  expect_output(trial, 'x', 10);
}

/* Of one open file with others, which a flag would surprise. */
TRIAL_TEST(no_flag_of_the_descriptors_changes) {
  open_pipes(trial);
  standard_io_read(trial->io, true);
  put(trial, 'x', 1 << 20);
  standard_io_flush(trial->io);
  loop_settle(&trial->loop);
  assert_int_equal(fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK, 0);
  assert_int_equal(fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK, 0);
}
