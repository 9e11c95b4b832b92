#include "bench/senders.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/latency.h"
#include "bench/sender.h"
#include "bench/xadds.h"
#include "tests/test.h"

/* The depth at which one sender is fastest, and has least to do for a command. */
#define DEPTH 1000

/* What one process does until it is killed. */
static _Noreturn void serve(const struct rig *rig, int socket, size_t number, size_t lines) {
  char source[PRINTERS_KEY_SIZE], key[PRINTERS_KEY_SIZE], byte = 0;
  struct xadds xadds;
  printers_key(source, 0, "events");
  printers_key(key, number, "events");
  /* The connection of the rig is the parent's. */
  redisContext *redis = rig_connect(rig);
  xadds_init(&xadds, redis, source, key, lines);
  redisFree(redis);
  while (write(socket, &byte, 1) == 1 && read(socket, &byte, 1) == 1)
    (void)sender_run(&rig->endpoint, &xadds, DEPTH);
  _exit(0);
}

static void start(struct senders *self, const struct rig *rig, size_t number, size_t lines) {
  int ends[2];
  pid_t parent = getpid();
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(1);
    close(ends[0]);
    serve(rig, ends[1], number, lines);
  }
  close(ends[1]);
  self->pids[number] = pid;
  self->sockets[number] = ends[0];
}

static void wait_until_ready(const struct senders *self) {
  char byte;
  for (size_t i = 0; i < self->count; i++)
    if (read(self->sockets[i], &byte, 1) != 1)
      fail_msg("bare sender %zu of %zu has failed", i + 1, self->count);
}

void senders_init(struct senders *self, const struct rig *rig, size_t count, size_t lines) {
  assert_true(count <= PRINTERS_MAX);
  *self = (struct senders){.count = count};
  for (size_t i = 0; i < count; i++)
    start(self, rig, i, lines);
  wait_until_ready(self);
}

void senders_release(struct senders *self) {
  for (size_t i = 0; i < self->count; i++) {
    (void)kill(self->pids[i], SIGKILL);
    (void)waitpid(self->pids[i], NULL, 0);
    close(self->sockets[i]);
  }
}

double senders_run(struct senders *self) {
  double begin_ms = latency_now_ms();
  for (size_t i = 0; i < self->count; i++)
    assert_int_equal(write(self->sockets[i], "", 1), 1);
  wait_until_ready(self);
  return (latency_now_ms() - begin_ms) / 1e3;
}
