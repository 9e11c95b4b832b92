#include "agent/process/supervisor_message.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/write_all.h"

#define DESCRIPTORS_MAX 4

union control {
  struct cmsghdr header;
  char space[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
};

/* Returns the size of the body with the pointers, a NULL behind each array, one for PWD, and one
   for the alignment. */
static size_t size_of(const struct supervisor_message *self) {
  return self->length + ((size_t)self->arguments + self->variables + 4) * sizeof(char *);
}

/* Preserves errno. */
static void close_fd(int fd) {
  int kept_errno = errno;
  close(fd);
  errno = kept_errno;
}

static int make_file(const struct buffer *body, size_t size) {
  int fd = memfd_create("step", MFD_CLOEXEC);
  if (fd >= 0 &&
      (write_all(fd, body->bytes, body->length) != 0 || ftruncate(fd, (off_t)size) != 0)) {
    close_fd(fd);
    return -1;
  }
  return fd;
}

int supervisor_message_send(int fd, const struct supervisor_message *message,
                            const struct buffer *body, const int descriptors[3]) {
  struct supervisor_message sent = *message;
  int fds[DESCRIPTORS_MAX] = {descriptors[0], descriptors[1], descriptors[2]};
  union control control = {.space = {0}};
  sent.length = body->length;
  if (sent.record_at == 0)
    sent.task_length = sent.length;
  sent.in_file = size_of(&sent) > SUPERVISOR_BODY_MAX;
  if (sent.in_file && (fds[3] = make_file(body, size_of(&sent))) < 0)
    return -1;
  const size_t size = (sent.in_file ? 4 : 3) * sizeof *fds;
  struct iovec pieces[] = {{&sent, sizeof sent}, {body->bytes, sent.in_file ? 0 : sent.length}};
  struct msghdr header = {.msg_iov = pieces,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = (socklen_t)CMSG_SPACE(size)};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = (socklen_t)CMSG_LEN(size);
  memcpy(CMSG_DATA(rights), fds, size);
  int result = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ? 0 : -1;
  if (sent.in_file)
    close_fd(fds[3]);
  return result;
}

bool supervisor_message_is_pending(int end) {
  char byte;
  return recv(end, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The kernel closes the descriptors of a message that is received without space for them. */
bool supervisor_message_withdraw(int end) {
  char byte;
  return recv(end, &byte, sizeof byte, MSG_DONTWAIT) > 0;
}

/* The kernel drops descriptors beyond the receiver's limit. */
static void discard_incomplete(struct supervisor_message *message, int fds[DESCRIPTORS_MAX]) {
  for (size_t i = 0; i < DESCRIPTORS_MAX; i++) {
    if (fds[i] >= 0)
      close(fds[i]);
    fds[i] = -1;
  }
  message->in_file = false;
}

int supervisor_message_receive(int fd, struct supervisor_message *message,
                               char space[SUPERVISOR_BODY_MAX], char **body, int descriptors[3]) {
  union control control;
  int fds[DESCRIPTORS_MAX] = {-1, -1, -1, -1};
  struct iovec pieces[] = {{message, sizeof *message}, {space, SUPERVISOR_BODY_MAX}};
  struct msghdr header = {.msg_iov = pieces,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = sizeof control};
  ssize_t length;
  do
    length = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  while (length < 0 && errno == EINTR);
  if (length <= 0)
    return (int)length;
  CHECK(length >= (ssize_t)sizeof *message);
  const struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
  if (rights != NULL && rights->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
  if ((header.msg_flags & MSG_CTRUNC) != 0)
    discard_incomplete(message, fds);
  memcpy(descriptors, fds, 3 * sizeof *fds);
  *body = space;
  if (!message->in_file)
    return 1;
  void *mapped = mmap(NULL, size_of(message), PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[3], 0);
  close(fds[3]);
  *body = mapped != MAP_FAILED ? mapped : NULL;
  return *body != NULL ? 1 : -1;
}

void supervisor_message_release(const struct supervisor_message *message, char *body) {
  if (message->in_file && body != NULL)
    (void)munmap(body, size_of(message));
}
