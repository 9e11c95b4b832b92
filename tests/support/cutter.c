#include "tests/support/cutter.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/test.h"

#define CONNECTIONS_MAX 32

struct cutter {
  pid_t pid;
  atomic_int *cuts; /* shared by both processes */
};

/* What is left of each direction: of the client's bytes, and of the agent's. */
struct connection {
  int fd[2]; /* the client, the agent; 0: none */
  long left[2];
};

static struct sockaddr_un address_of(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  assert_true(strlen(path) < sizeof address.sun_path);
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  return address;
}

static void close_both(struct connection *self) {
  close(self->fd[0]);
  close(self->fd[1]);
  *self = (struct connection){0};
}

/* Returns whether the connection was cut. */
static bool forward(struct connection *self, int from) {
  char bytes[65536];
  const bool is_cut_here = self->left[from] >= 0;
  const size_t size = is_cut_here && self->left[from] < (long)sizeof bytes
                          ? (size_t)self->left[from]
                          : sizeof bytes;
  const ssize_t length = recv(self->fd[from], bytes, size, 0);
  if (length <= 0 || send(self->fd[!from], bytes, (size_t)length, MSG_NOSIGNAL) != length) {
    close_both(self);
    return false;
  }
  self->left[from] -= is_cut_here ? length : 0;
  if (!is_cut_here || self->left[from] > 0)
    return false;
  close_both(self);
  return true;
}

static void accept_client(int listener, const struct sockaddr_un *agent, struct connection *self,
                          const struct cutter_plan *plan, bool is_cut) {
  self->fd[0] = accept(listener, NULL, NULL);
  self->fd[1] = socket(AF_UNIX, SOCK_STREAM, 0);
  self->left[0] = is_cut && plan->request_bytes > 0 ? plan->request_bytes : -1;
  self->left[1] = is_cut && plan->reply_bytes > 0 ? plan->reply_bytes : -1;
  if (connect(self->fd[1], (const struct sockaddr *)agent, sizeof *agent) != 0)
    close_both(self);
}

static void serve(int listener, const struct sockaddr_un *agent, const struct cutter_plan *plan,
                  atomic_int *cuts) {
  struct connection connections[CONNECTIONS_MAX] = {0};
  for (int accepted = 0;;) {
    struct pollfd fds[1 + 2 * CONNECTIONS_MAX] = {{.fd = listener, .events = POLLIN}};
    for (int i = 0; i < 2 * CONNECTIONS_MAX; i++) {
      const struct connection *connection = &connections[i / 2];
      const bool is_open = connection->fd[0] != 0;
      fds[1 + i] = (struct pollfd){.fd = is_open ? connection->fd[i % 2] : -1, .events = POLLIN};
    }
    (void)poll(fds, 1 + 2 * CONNECTIONS_MAX, -1);
    for (int i = 0; i < 2 * CONNECTIONS_MAX; i++)
      if (connections[i / 2].fd[0] != 0 && fds[1 + i].revents != 0)
        atomic_fetch_add(cuts, forward(&connections[i / 2], i % 2));
    int slot = 0;
    while (slot < CONNECTIONS_MAX && connections[slot].fd[0] != 0)
      slot++;
    if (fds[0].revents != 0 && slot < CONNECTIONS_MAX)
      accept_client(listener, agent, &connections[slot], plan, accepted++ < plan->connections);
  }
}

struct cutter *cutter_start(const char *address, const char *path, struct cutter_plan plan) {
  struct cutter *self = calloc(1, sizeof *self);
  assert_non_null(self);
  assert_memory_equal(address, "unix:", 5);
  const struct sockaddr_un agent = address_of(address + 5), own = address_of(path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)unlink(path);
  assert_int_equal(bind(listener, (const struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(listen(listener, 64), 0);
  self->cuts =
      mmap(NULL, sizeof *self->cuts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->cuts != MAP_FAILED);
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(listener, &agent, &plan, self->cuts);
  }
  close(listener);
  return self;
}

int cutter_stop(struct cutter *self) {
  (void)kill(self->pid, SIGKILL);
  (void)waitpid(self->pid, NULL, 0);
  const int cuts = atomic_load(self->cuts);
  (void)munmap(self->cuts, sizeof *self->cuts);
  free(self);
  return cuts;
}
