#include "base/printable.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/utf8.h"

void printable_add(struct buffer *out, const char *name, size_t length) {
  while (length > 0) {
    const unsigned char *byte = (const unsigned char *)name;
    size_t step = utf8_sequence(name, length);
    bool is_control = byte[0] < 0x20 || byte[0] == 0x7F;
    bool is_late_control = step == 2 && byte[0] == 0xC2 && byte[1] < 0xA0;
    bool is_separator =
        step == 3 && byte[0] == 0xE2 && byte[1] == 0x80 && (byte[2] == 0xA8 || byte[2] == 0xA9);
    if (step == 0 || is_control || is_late_control || is_separator)
      buffer_add_string(out, UTF8_REPLACEMENT);
    else
      buffer_add(out, name, step);
    step = step > 0 ? step : utf8_broken(name, length);
    name += step;
    length -= step;
  }
}

const char *printable_file_kind(mode_t mode) {
  static const struct {
    mode_t type;
    const char *name;
  } kinds[] = {
      {S_IFREG, "a regular file"}, {S_IFDIR, "a directory"},        {S_IFIFO, "a FIFO"},
      {S_IFSOCK, "a socket"},      {S_IFCHR, "a character device"}, {S_IFBLK, "a block device"},
      {S_IFLNK, "a symbolic link"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if ((mode & S_IFMT) == kinds[i].type)
      return kinds[i].name;
  return "of an unknown kind";
}

const char *printable_signal(int signal) {
  static const char *const names[] = {
      [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
      [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
      [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
      [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM", [SIGXCPU] = "SIGXCPU",
      [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS"};
  const char *name =
      signal > 0 && (size_t)signal < sizeof names / sizeof *names ? names[signal] : NULL;
  return name != NULL ? name : "another signal";
}
