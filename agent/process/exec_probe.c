#include "agent/process/exec_probe.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/raw_syscall.h"

/* See launch.c. */
#define NO_SANITIZER __attribute__((no_sanitize("address")))

NO_SANITIZER static ssize_t read_at(int fd, void *out, size_t size, unsigned long offset) {
  return raw_syscall(SYS_pread64, fd, (long)out, (long)size, (long)offset);
}

NO_SANITIZER static void read_loader(struct exec_probe *self, int fd) {
  Elf64_Ehdr elf = {0};
  if (read_at(fd, &elf, sizeof elf, 0) != (ssize_t)sizeof elf || elf.e_ident[EI_MAG0] != ELFMAG0 ||
      elf.e_ident[EI_MAG1] != ELFMAG1 || elf.e_ident[EI_MAG2] != ELFMAG2 ||
      elf.e_ident[EI_MAG3] != ELFMAG3 || elf.e_ident[EI_CLASS] != ELFCLASS64)
    return;
  for (unsigned i = 0; i < elf.e_phnum; i++) {
    Elf64_Phdr segment;
    if (read_at(fd, &segment, sizeof segment, elf.e_phoff + (Elf64_Off)i * sizeof segment) !=
        (ssize_t)sizeof segment)
      return;
    if (segment.p_type != PT_INTERP)
      continue;
    size_t size = sizeof self->loader - 1; /* the last byte stays zero */
    (void)read_at(fd, self->loader, segment.p_filesz < size ? segment.p_filesz : size,
                  segment.p_offset);
    return;
  }
}

NO_SANITIZER static mode_t mode_of(const char *path) {
  struct stat stat_buffer = {0};
  long result = raw_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&stat_buffer, 0);
  return result == 0 ? stat_buffer.st_mode : 0;
}

/* The kernel ends the name at a space, a tab or the end of the line. */
NO_SANITIZER static void read_interpreter(struct exec_probe *self) {
  const unsigned char *at = self->head;
  size_t length = 0;
  if (*at++ != '#' || *at++ != '!')
    return;
  while (*at == ' ' || *at == '\t')
    at++;
  for (; *at != '\0' && *at != ' ' && *at != '\t' && *at != '\n'; at++)
    self->interpreter[length++] = (char)*at;
  if (length > 0)
    self->interpreter_mode = mode_of(self->interpreter);
}

NO_SANITIZER void exec_probe_file(struct exec_probe *self, const char *path, int exec_errno) {
  self->error = exec_errno;
  self->mode = mode_of(path);
  self->there = self->mode != 0;
  self->head_length = -1;
  if (exec_errno != ENOENT && exec_errno != ENOEXEC && exec_errno != EACCES && exec_errno != ELOOP)
    return;
  long fd = raw_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0)
    return;
  self->head_length = read_at((int)fd, self->head, sizeof self->head - 1, 0);
  read_loader(self, (int)fd);
  read_interpreter(self);
  (void)raw_syscall(SYS_close, fd, 0, 0, 0);
}
