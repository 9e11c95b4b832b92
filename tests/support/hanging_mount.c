#include "tests/support/hanging_mount.h"

#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

#include "tests/test.h"

/* The device number of the kernel, for a /dev without the node (a container). */
#define FUSE_MAJOR 10
#define FUSE_MINOR 229

/* The smallest buffer with which the kernel lets a server read. */
#define REQUEST_SIZE (FUSE_MIN_READ_BUFFER + 4096)

static int open_device(void) {
  int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd >= 0 || errno != ENOENT)
    return fd;
  char node[64];
  (void)snprintf(node, sizeof node, "/tmp/hanging-mount-fuse-%d", (int)getpid());
  (void)mknod(node, S_IFCHR | 0600, makedev(FUSE_MAJOR, FUSE_MINOR));
  fd = open(node, O_RDWR | O_CLOEXEC);
  (void)unlink(node);
  return fd;
}

/* Performs the handshake, and then reads each request and answers none. */
static void serve(int fd) {
  static char request[REQUEST_SIZE];
  while (read(fd, request, sizeof request) > 0 || errno == EINTR) {
    struct fuse_in_header head;
    memcpy(&head, request, sizeof head);
    if (head.opcode != FUSE_INIT)
      continue;
    struct {
      struct fuse_out_header head;
      struct fuse_init_out body;
    } answer = {.head = {.len = sizeof answer, .unique = head.unique},
                .body = {.major = FUSE_KERNEL_VERSION,
                         .minor = FUSE_KERNEL_MINOR_VERSION,
                         .max_write = 4096,
                         .max_readahead = 4096}};
    (void)!write(fd, &answer, sizeof answer);
  }
}

void hanging_mount_init(struct hanging_mount *self, const char *path) {
  (void)snprintf(self->path, sizeof self->path, "%s", path);
  int fd = open_device();
  if (fd < 0)
    fail_msg("/dev/fuse: %s", strerror(errno));
  char options[64];
  (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
  if (mount("hanging", path, "fuse", 0, options) != 0)
    fail_msg("mount of fuse: %s", strerror(errno));
  self->server = fork();
  if (self->server == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(fd);
    _exit(0);
  }
  assert_true(self->server > 0);
  close(fd);
}

void hanging_mount_release(struct hanging_mount *self) {
  if (self->server == 0)
    return;
  assert_int_equal(kill(self->server, SIGKILL), 0);
  assert_int_equal(waitpid(self->server, NULL, 0), self->server);
  assert_int_equal(umount2(self->path, MNT_DETACH), 0);
  *self = (struct hanging_mount){0};
}
