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

/* The interpreter that the first line of a script names, cut to `size`; false when it names none.
 */
static bool find_interpreter(const struct exec_probe *probe, char *out, size_t size) {
  const char *head = (const char *)probe->head;
  if (strncmp(head, "#!", 2) != 0)
    return false;
  const char *name = head + 2 + strspn(head + 2, " \t");
  (void)snprintf(out, size, "%.*s", (int)strcspn(name, " \t\r\n"), name);
  return out[0] != '\0';
}

static int missing_interpreter(struct error *error, const char *path,
                               const struct exec_probe *probe) {
  if (probe->loader[0] != '\0')
    return error_set(error,
                     "cannot run %.80s: it exists, but its loader %.80s does not"
                     " (built for another libc?)",
                     path, probe->loader);
  char interpreter[128];
  if (!find_interpreter(probe, interpreter, sizeof interpreter))
    return error_set(error, "cannot run %.150s: it exists, but its interpreter or loader does not",
                     path);
  const char *head = (const char *)probe->head;
  if (head[strcspn(head, "\r\n")] == '\r')
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

int exec_error(struct error *error, const char *path, const struct exec_probe *probe) {
  if (probe->error == EACCES && probe->there)
    return error_set(error, "cannot run %.150s: %s", path, why_not_permitted(probe->mode));
  if (probe->error == ENOENT)
    return probe->there ? missing_interpreter(error, path, probe)
                        : error_set(error, "cannot run %.150s: no such file", path);
  if (probe->error == ENOEXEC && probe->head_length >= 0)
    return bad_format(error, path, probe->head, (size_t)probe->head_length);
  if (probe->error == E2BIG)
    return error_set(error, "cannot run %.100s: arguments and environment are too long", path);
  return error_set(error, "cannot run %.150s: %s", path, strerror(probe->error));
}
