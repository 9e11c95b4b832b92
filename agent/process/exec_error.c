#include "agent/process/exec_error.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

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

static int missing_interpreter(struct error *error, const char *path,
                               const struct exec_probe *probe) {
  if (probe->loader[0] != '\0')
    return error_set(error,
                     "cannot run %.80s: it exists, but its loader %.80s does not"
                     " (built for another libc?)",
                     path, probe->loader);
  if (probe->interpreter[0] == '\0')
    return error_set(error, "cannot run %.150s: it exists, but its interpreter or loader does not",
                     path);
  if (strchr(probe->interpreter, '\r') != NULL)
    return error_set(error,
                     "cannot run %.80s: its first line ends in a carriage return, which"
                     " belongs to the interpreter's name (Windows line endings)",
                     path);
  return error_set(error, "cannot run %.100s: it exists, but its interpreter %.100s does not", path,
                   probe->interpreter);
}

static bool is_own_machine(const char *name) {
  struct utsname own;
  return uname(&own) == 0 && strncmp(own.machine, name, strlen(name)) == 0;
}

/* Of a file that is no program, or none for this kernel. */
static const char *why_no_script(const struct exec_probe *probe) {
  static const char mark[] = "\xEF\xBB\xBF#!";
  const char *head = (const char *)probe->head;
  if (strncmp(head, mark, sizeof mark - 1) == 0)
    return "a byte order mark stands before its #!";
  if (strncmp(head, "#!", 2) != 0)
    return "no program, and a script must begin with #!";
  return strlen(head) == sizeof probe->head - 1
             ? "its first line is longer than the 255 bytes that the kernel reads"
             : "its interpreter is no program";
}

static int bad_format(struct error *error, const char *path, const struct exec_probe *probe) {
  const unsigned char *head = probe->head;
  size_t length = (size_t)probe->head_length;
  if (!is_elf(head, length))
    return error_set(error, "cannot run %.150s: exec format error: %s", path, why_no_script(probe));
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

static int not_permitted(struct error *error, const char *path, const struct exec_probe *probe) {
  const char *reason = "permission denied";
  if (S_ISDIR(probe->mode))
    reason = "permission denied: it is a directory";
  else if ((probe->mode & 0111) == 0)
    reason = "permission denied: not executable (no x in its mode)";
  else if (S_ISDIR(probe->interpreter_mode))
    return error_set(error, "cannot run %.100s: its interpreter %.100s is a directory", path,
                     probe->interpreter);
  else if (probe->interpreter_mode != 0 && (probe->interpreter_mode & 0111) == 0)
    return error_set(error, "cannot run %.100s: its interpreter %.100s is not executable", path,
                     probe->interpreter);
  return error_set(error, "cannot run %.150s: %s", path, reason);
}

int exec_error(struct error *error, const char *path, const struct exec_probe *probe) {
  bool may_be_run = probe->there && (probe->mode & 0111) != 0;
  if (may_be_run && strncmp((const char *)probe->head, "#!", 2) == 0 &&
      probe->interpreter[0] == '\0') /* the errno hangs on the kernel */
    return error_set(error, "cannot run %.150s: its #! names no interpreter", path);
  if (probe->error == EACCES && probe->there)
    return not_permitted(error, path, probe);
  if (probe->error == ENOENT)
    return probe->there ? missing_interpreter(error, path, probe)
                        : error_set(error, "cannot run %.150s: no such file", path);
  if (probe->error == ENOEXEC && probe->head_length >= 0)
    return bad_format(error, path, probe);
  if (probe->error == ELOOP && probe->interpreter[0] != '\0')
    return error_set(error,
                     "cannot run %.90s: its interpreter %.90s is a script, and so is the next one, "
                     "too often",
                     path, probe->interpreter);
  if (probe->error == ENAMETOOLONG)
    return error_set(error, "cannot run %.120s…: the path, or a name in it, is too long", path);
  if (probe->error == E2BIG)
    return error_set(error, "cannot run %.100s: arguments and environment are too long", path);
  return error_set(error, "cannot run %.150s: %s", path, strerror(probe->error));
}
