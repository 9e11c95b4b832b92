#include "agent/process/exec_error.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Facts about a file that execve(2) refused. */
struct exec_probe {
  int error;  /* of execve */
  bool there; /* the path leads to something */
  mode_t mode;
  ssize_t head_length;     /* -1: it cannot be read */
  unsigned char head[257]; /* its first bytes, as many as the kernel looks at, and a NUL */
  char loader[128];        /* that a 64-bit ELF program names; "": none */
  char interpreter[257];   /* that the first line of a script names; "": none */
  mode_t interpreter_mode; /* 0: it is not there */
};

static void read_loader(struct exec_probe *self, int fd) {
  Elf64_Ehdr elf = {0};
  if (pread(fd, &elf, sizeof elf, 0) != (ssize_t)sizeof elf || elf.e_ident[EI_MAG0] != ELFMAG0 ||
      elf.e_ident[EI_MAG1] != ELFMAG1 || elf.e_ident[EI_MAG2] != ELFMAG2 ||
      elf.e_ident[EI_MAG3] != ELFMAG3 || elf.e_ident[EI_CLASS] != ELFCLASS64)
    return;
  for (unsigned i = 0; i < elf.e_phnum; i++) {
    Elf64_Phdr segment;
    if (pread(fd, &segment, sizeof segment, (off_t)(elf.e_phoff + (Elf64_Off)i * sizeof segment)) !=
        (ssize_t)sizeof segment)
      return;
    if (segment.p_type != PT_INTERP)
      continue;
    size_t size = sizeof self->loader - 1; /* the last byte stays zero */
    (void)pread(fd, self->loader, segment.p_filesz < size ? segment.p_filesz : size,
                (off_t)segment.p_offset);
    return;
  }
}

static mode_t mode_of(const char *path) {
  struct stat stat_buffer = {0};
  return stat(path, &stat_buffer) == 0 ? stat_buffer.st_mode : 0;
}

/* The kernel ends the name at a space, a tab or the end of the line. */
static void read_interpreter(struct exec_probe *self) {
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

static void look_at(struct exec_probe *self, const char *path, int exec_errno) {
  self->error = exec_errno;
  self->mode = mode_of(path);
  self->there = self->mode != 0;
  self->head_length = -1;
  if (exec_errno != ENOENT && exec_errno != ENOEXEC && exec_errno != EACCES && exec_errno != ELOOP)
    return;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return;
  self->head_length = pread(fd, self->head, sizeof self->head - 1, 0);
  read_loader(self, fd);
  read_interpreter(self);
  close(fd);
}

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

/* What cannot be run; `shown` bytes of its path, so that the reason fits behind them. */
struct subject {
  char text[200];
};

static struct subject subject_of(const char *path, int shown) {
  struct subject subject;
  (void)snprintf(subject.text, sizeof subject.text, "cannot run %.*s", shown, path);
  return subject;
}

static struct subject cut_subject_of(const char *path) {
  struct subject subject;
  (void)snprintf(subject.text, sizeof subject.text, "cannot run %.120s…", path);
  return subject;
}

static int missing_interpreter(struct error *error, const char *path,
                               const struct exec_probe *probe) {
  if (probe->loader[0] != '\0')
    return error_set_about(error, subject_of(path, 80).text,
                           "it exists, but its loader %.80s does not (built for another libc?)",
                           probe->loader);
  if (probe->interpreter[0] == '\0')
    return error_set_about(error, subject_of(path, 150).text,
                           "it exists, but its interpreter or loader does not");
  if (strchr(probe->interpreter, '\r') != NULL)
    return error_set_about(error, subject_of(path, 80).text,
                           "its first line ends in a carriage return, which belongs to the "
                           "interpreter's name (Windows line endings)");
  return error_set_about(error, subject_of(path, 100).text,
                         "it exists, but its interpreter %.100s does not", probe->interpreter);
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
  const struct subject subject = subject_of(path, 150);
  const unsigned char *head = probe->head;
  size_t length = (size_t)probe->head_length;
  if (!is_elf(head, length))
    return error_set_about(error, subject.text, "exec format error: %s", why_no_script(probe));
  unsigned machine = 0;
  if (length >= 20) /* e_machine: two bytes at offset 18, in the file's own byte order */
    machine = head[EI_DATA] == ELFDATA2MSB ? (unsigned)(head[18] << 8 | head[19])
                                           : (unsigned)(head[19] << 8 | head[18]);
  const char *name = machine_name(machine);
  if (length < 20 || is_own_machine(name))
    return error_set_about(error, subject.text, "exec format error: no whole program");
  return error_set_about(error, subject.text, "exec format error: wrong architecture, built for %s",
                         name);
}

static int not_permitted(struct error *error, const char *path, const struct exec_probe *probe) {
  const char *reason = "permission denied";
  if (S_ISDIR(probe->mode))
    reason = "permission denied: it is a directory";
  else if ((probe->mode & 0111) == 0)
    reason = "permission denied: not executable (no x in its mode)";
  else if (S_ISDIR(probe->interpreter_mode))
    return error_set_about(error, subject_of(path, 100).text,
                           "its interpreter %.100s is a directory", probe->interpreter);
  else if (probe->interpreter_mode != 0 && (probe->interpreter_mode & 0111) == 0)
    return error_set_about(error, subject_of(path, 100).text,
                           "its interpreter %.100s is not executable", probe->interpreter);
  return error_set_about(error, subject_of(path, 150).text, "%s", reason);
}

static int explain(struct error *error, const char *path, const struct exec_probe *probe) {
  const struct subject subject = subject_of(path, 150);
  bool may_be_run = probe->there && (probe->mode & 0111) != 0;
  if (may_be_run && strncmp((const char *)probe->head, "#!", 2) == 0 &&
      probe->interpreter[0] == '\0') /* the errno hangs on the kernel */
    return error_set_about(error, subject.text, "its #! names no interpreter");
  if (probe->error == EACCES && probe->there)
    return not_permitted(error, path, probe);
  if (probe->error == ENOENT)
    return probe->there ? missing_interpreter(error, path, probe)
                        : error_set_about(error, subject.text, "no such file");
  if (probe->error == ENOEXEC && probe->head_length >= 0)
    return bad_format(error, path, probe);
  if (probe->error == ELOOP && probe->interpreter[0] != '\0')
    return error_set_about(error, subject_of(path, 90).text,
                           "its interpreter %.90s is a script, and so is the next one, too often",
                           probe->interpreter);
  if (probe->error == ENAMETOOLONG)
    return error_set_about(error, cut_subject_of(path).text,
                           "the path, or a name in it, is too long");
  if (probe->error == E2BIG)
    return error_set_about(error, subject_of(path, 100).text,
                           "arguments and environment are too long");
  return error_set_about(error, subject.text, "%s", strerror(probe->error));
}

int exec_error(struct error *error, const char *shown, const char *path, int exec_errno) {
  struct exec_probe probe = {0};
  look_at(&probe, path, exec_errno);
  (void)explain(error, shown, &probe);
  error->code = exec_errno;
  return -1;
}
