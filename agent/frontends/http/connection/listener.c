/*
 * A socket file is stale if no process has bound it. To find out, the kernel is asked to connect a
 * datagram socket to it: that is refused if nobody has bound the file, and fails with EPROTOTYPE if
 * somebody has, even if that process does not listen yet. No connection is made in either case.
 */
#include "agent/frontends/http/connection/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"

/* Connections that the kernel holds until they are accepted: twice as many as are served, so that
   the agent, and not the kernel, refuses those of a burst. */
enum { BACKLOG = 128 };

/* The C libraries have different texts for this one, which is the most frequent. */
static int fail(const struct http_address *address, const char *why, struct error *error) {
  int code = errno;
  (void)error_set(error, "cannot listen on %s: %s", address->text,
                  why != NULL          ? why
                  : code == EADDRINUSE ? "Address already in use"
                                       : strerror(code));
  error->code = code;
  return -1;
}

/* --- socket files ----------------------------------------------------------------------------- */

/* Sets errno if the file is not stale, or that cannot be known. */
static bool is_stale(const struct sockaddr_un *file) {
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return false;
  bool is_bound = connect(fd, (const struct sockaddr *)file, sizeof *file) == 0;
  descriptor_close(fd);
  if (!is_bound && errno == ECONNREFUSED)
    return true;
  if (is_bound || errno == EPROTOTYPE)
    errno = EADDRINUSE;
  return false;
}

/* Returns 0 if the name is free now. */
static int remove_stale(const struct http_address *address, struct error *error) {
  const struct sockaddr_un *file = &address->sockets[0].file;
  struct stat stat_buffer;
  if (lstat(file->sun_path, &stat_buffer) != 0)
    return errno == ENOENT ? 0 : fail(address, NULL, error);
  errno = EEXIST;
  if (!S_ISSOCK(stat_buffer.st_mode))
    return fail(address, "the file exists and is not a socket", error);
  if (!is_stale(file) || (unlink(file->sun_path) != 0 && errno != ENOENT))
    return fail(address, NULL, error);
  return 0;
}

/* --- sockets ---------------------------------------------------------------------------------- */

static socklen_t length_of(const union http_socket_address *address) {
  return address->any.sa_family == AF_INET    ? sizeof address->ipv4
         : address->any.sa_family == AF_INET6 ? sizeof address->ipv6
                                              : sizeof address->file;
}

/* The umask applies in the moment in which the kernel makes the file. No other thread exists. */
static int bind_privately(int fd, const union http_socket_address *address) {
  mode_t before = umask(0177);
  int result = bind(fd, &address->any, length_of(address));
  int kept_errno = errno;
  (void)umask(before);
  errno = kept_errno;
  return result;
}

/* [::] alone is also all of IPv4. Of two sockets each is for its own family. Returns a descriptor,
   or -1 with errno. */
static int open_bound(const union http_socket_address *address, int is_ipv6_only) {
  static const int on = 1;
  int family = address->any.sa_family;
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  if ((family != AF_UNIX && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) ||
      (family == AF_INET6 &&
       setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_ipv6_only, sizeof is_ipv6_only) != 0) ||
      bind_privately(fd, address) != 0) {
    descriptor_close(fd);
    return -1;
  }
  return fd;
}

static bool is_missing(int reason) {
  return reason == EAFNOSUPPORT || reason == EADDRNOTAVAIL;
}

static void remember_file(struct http_listener *self) {
  struct stat stat_buffer;
  if (lstat(self->address->sockets[0].file.sun_path, &stat_buffer) != 0)
    return;
  self->device = stat_buffer.st_dev;
  self->inode = stat_buffer.st_ino;
}

int http_listener_bind(struct http_listener *self, const struct http_address *address,
                       struct error *error) {
  *self = (struct http_listener){.address = address};
  if (http_address_is_file(address) && remove_stale(address, error) != 0)
    return -1;
  for (size_t i = 0; i < address->count; i++) {
    int fd = open_bound(&address->sockets[i], address->count > 1);
    bool is_last = i + 1 == address->count;
    if (fd >= 0) {
      self->fds[self->count++] = fd;
    } else if (!is_missing(errno) || address->count == 1 || (is_last && self->count == 0)) {
      (void)fail(address, NULL, error);
      http_listener_close(self);
      return -1;
    }
  }
  if (http_address_is_file(address))
    remember_file(self);
  return 0;
}

int http_listener_listen(const struct http_listener *self, struct error *error) {
  for (size_t i = 0; i < self->count; i++)
    if (listen(self->fds[i], BACKLOG) != 0)
      return fail(self->address, NULL, error);
  return 0;
}

/* The file is removed first: as long as its socket is open, its inode belongs to no other file. */
void http_listener_close(struct http_listener *self) {
  struct stat stat_buffer;
  if (self->count > 0 && http_address_is_file(self->address)) {
    const char *path = self->address->sockets[0].file.sun_path;
    if (lstat(path, &stat_buffer) == 0 && stat_buffer.st_dev == self->device &&
        stat_buffer.st_ino == self->inode)
      (void)unlink(path);
  }
  for (size_t i = 0; i < self->count; i++)
    descriptor_close(self->fds[i]);
  self->count = 0;
}
