#include "agent/step/exec_failure.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The machines that toolchain images are made for, by the beginnings of their names in uname(2). */
static const char *machine_name(unsigned machine) {
  switch (machine) {
  case EM_X86_64:
    return "x86_64";
  case EM_AARCH64:
    return "aarch64";
  case EM_386:
    return "i386";
  case EM_ARM:
    return "arm";
  case EM_RISCV:
    return "riscv";
  case EM_PPC64:
    return "ppc64";
  case EM_S390:
    return "s390x";
  default:
    return "another machine";
  }
}

static bool is_elf(const unsigned char *head, size_t length) {
  return length >= EI_NIDENT && memcmp(head, ELFMAG, SELFMAG) == 0;
}

/* The interpreter a 64-bit ELF program or a script names, cut to `size`; false when it names none.
 */
static bool find_interpreter(int fd, const unsigned char *head, size_t length, char *out,
                             size_t size) {
  if (length >= 2 && memcmp(head, "#!", 2) == 0) {
    size_t at = 2 + strspn((const char *)head + 2, " \t");
    size_t n = strcspn((const char *)head + at, " \t\r\n");
    n = n < size ? n : size - 1;
    memcpy(out, head + at, n);
    out[n] = '\0';
    return n > 0;
  }
  Elf64_Ehdr elf;
  if (!is_elf(head, length) || length < sizeof elf || head[EI_CLASS] != ELFCLASS64)
    return false;
  memcpy(&elf, head, sizeof elf);
  for (unsigned i = 0; i < elf.e_phnum; i++) {
    Elf64_Phdr segment;
    off_t at = (off_t)(elf.e_phoff + (Elf64_Off)i * sizeof segment);
    if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
      return false;
    if (segment.p_type != PT_INTERP)
      continue;
    size_t wanted = segment.p_filesz < size ? (size_t)segment.p_filesz : size - 1;
    ssize_t got = pread(fd, out, wanted, (off_t)segment.p_offset);
    out[got > 0 ? got : 0] = '\0';
    return got > 0;
  }
  return false;
}

static int missing_interpreter(struct error *error, const char *path, int fd,
                               const unsigned char *head, size_t length) {
  char interpreter[128];
  if (!find_interpreter(fd, head, length, interpreter, sizeof interpreter))
    return error_set(error, "cannot run %.150s: it exists, but its interpreter or loader does not",
                     path);
  if (is_elf(head, length))
    return error_set(error,
                     "cannot run %.80s: it exists, but its loader %.80s does not"
                     " (built for another libc?)",
                     path, interpreter);
  if (head[strcspn((const char *)head, "\r\n")] == '\r')
    return error_set(error,
                     "cannot run %.80s: its first line ends in a carriage return, which"
                     " belongs to the interpreter's name (Windows line endings)",
                     path);
  return error_set(error, "cannot run %.100s: it exists, but its interpreter %.100s does not", path,
                   interpreter);
}

static bool is_own_machine(const char *name) {
  struct utsname own;
  return uname(&own) == 0 && strncmp(own.machine, name, strlen(name)) == 0;
}

static int bad_format(struct error *error, const char *path, const unsigned char *head,
                      size_t length) {
  if (!is_elf(head, length))
    return error_set(error,
                     "cannot run %.150s: exec format error: no program, and a script must begin "
                     "with #!",
                     path);
  unsigned machine = 0;
  if (length >= 20) /* e_machine: two bytes at offset 18, in the file's own byte order */
    machine = head[EI_DATA] == ELFDATA2MSB ? (unsigned)(head[18] << 8 | head[19])
                                           : (unsigned)(head[19] << 8 | head[18]);
  const char *name = machine_name(machine);
  if (length < 20 || is_own_machine(name))
    return error_set(error, "cannot run %.150s: exec format error: no whole program", path);
  return error_set(error, "cannot run %.150s: exec format error: wrong architecture, built for %s",
                   path, name);
}

/* Of a file that is there. */
static const char *why_not_permitted(mode_t mode) {
  if (S_ISDIR(mode))
    return "permission denied: it is a directory";
  return (mode & 0111) == 0 ? "permission denied: not executable (no x in its mode)"
                            : "permission denied";
}

int exec_failure(struct error *error, const char *path, int exec_errno) {
  struct stat stat_buffer;
  if (exec_errno == EACCES && stat(path, &stat_buffer) == 0)
    return error_set(error, "cannot run %.150s: %s", path, why_not_permitted(stat_buffer.st_mode));
  if (exec_errno == ENOENT && access(path, F_OK) != 0)
    return error_set(error, "cannot run %.150s: no such file", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  unsigned char head[257] = {0}; /* one more than is read: a script's first line ends */
  ssize_t length = fd < 0 ? -1 : pread(fd, head, sizeof head - 1, 0);
  int result;
  if (exec_errno == ENOENT)
    result = missing_interpreter(error, path, fd, head, length > 0 ? (size_t)length : 0);
  else if (exec_errno == ENOEXEC && length >= 0)
    result = bad_format(error, path, head, (size_t)length);
  else if (exec_errno == E2BIG)
    result = error_set(error, "cannot run %.100s: arguments and environment are too long", path);
  else
    result = error_set(error, "cannot run %.150s: %s", path, strerror(exec_errno));
  if (fd >= 0)
    close(fd);
  return result;
}
