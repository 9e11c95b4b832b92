#include <elf.h>
#include <endian.h>
#include <sys/mount.h>
#include <sys/utsname.h>

#include "agent/process/exec_command.h"
#include "tests/support/injection.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Each test runs in an empty directory, with a file that is called "file". */
static int setup(void **state) {
  (void)tree_set_up(state);
  return fchdir(((const struct tree *)*state)->fd);
}

static int teardown(void **state) {
  return chdir("/") + tree_tear_down(state);
}

static void make_file(const void *content, size_t length, mode_t mode) {
  (void)unlink("file");
  int fd = open("file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, content, length), (ssize_t)length);
  assert_int_equal(fchmod(fd, mode), 0);
  assert_int_equal(close(fd), 0);
}

static void explain(struct error *error, const char *path, int exec_errno) {
  struct exec_failure failure = {0};
  exec_command_explain(&failure, EXEC_NOT_EXECUTABLE, path, path, exec_errno);
  *error = failure.reason;
}

static void assert_says(const char *path, int exec_errno, const char *expected) {
  struct error error = {.text = ""};
  explain(&error, path, exec_errno);
  assert_string_equal(error.text, expected);
}

TEST(a_missing_file_is_named, setup, teardown) {
  assert_says("/no/such/file", ENOENT, "cannot run /no/such/file: no such file");
  assert_says("file", ENOENT, "cannot run file: no such file");
  assert_says("", ENOENT, "cannot run : no such file");
  assert_int_equal(symlink("nowhere", "file"), 0);
  assert_says("file", ENOENT, "cannot run file: no such file");
}

TEST(a_denied_permission_is_explained, setup, teardown) {
  assert_says("/tmp", EACCES, "cannot run /tmp: permission denied: it is a directory");
  make_file("#!/bin/sh\n", 10, 0644);
  assert_says("file", EACCES,
              "cannot run file: permission denied: not executable (no x in its mode)");
  make_file("#!/bin/sh\n", 10, 0711); /* as under Landlock */
  assert_says(
      "file", EACCES,
      "cannot run file: permission denied by a security policy, such as the step's sandbox policy");
  assert_says("/no/such/file", EACCES, "cannot run /no/such/file: Permission denied");
}

/* The file, the target of a link, or the interpreter may be on such a mount. */
INJECTION_TEST(a_noexec_mount_is_named) {
  injection_mount(self, "mount", NULL, MS_NOEXEC);
  injection_make_directory(self, "mount/a", 0755, 0);
  injection_write(self, "mount/a/file", "#!/bin/sh\n", 0755);
  const char *mount = injection_path(self, "mount"), *link = injection_path(self, "link");
  assert_int_equal(symlink(injection_path(self, "mount/a/file"), link), 0);
  assert_says(link, EACCES,
              formatted("cannot run %s: permission denied: the mount %s is noexec: copy it "
                        "elsewhere, or pass it to its interpreter",
                        link, mount));
  injection_write(self, "script", formatted("#!%s/a/file\n", mount), 0755);
  const char *script = injection_path(self, "script");
  assert_says(script, EACCES,
              formatted("cannot run %s: its interpreter is on the mount %s, which is noexec",
                        script, mount));
  injection_write(self, "mount/a/plain", "", 0644);
  assert_says(injection_path(self, "mount/a/plain"), EACCES,
              formatted("cannot run %s/a/plain: permission denied: not executable (no x in its "
                        "mode)",
                        mount));
}

TEST(other_errors_are_explained, setup, teardown) {
  make_file("", 0, 0755);
  assert_says("file", E2BIG,
              "cannot run file: arguments and environment are too long together: use "
              "stdin, or a file");
  assert_says("file", ETXTBSY, "cannot run file: Text file busy");
  assert_says("gone", ENOEXEC, "cannot run gone: Exec format error");
  assert_says("file", ELOOP, "cannot run file: Too many levels of symbolic links");
}

TEST(a_missing_interpreter_is_named, setup, teardown) {
  static const struct {
    const char *content, *says;
  } rows[] = {
      {"#!/no/bash\n", "it exists, but its interpreter /no/bash does not"},
      {"#! \t/no/bash -eu\nexit\n", "it exists, but its interpreter /no/bash does not"},
      {"#!/no/bash", "it exists, but its interpreter /no/bash does not"},
      {"#!/no/bash\necho a\r\n", "it exists, but its interpreter /no/bash does not"},
      {"#!/bin/sh\r\necho a\r\n", "its first line ends in a carriage return, which belongs to the "
                                  "interpreter's name (Windows line endings)"},
      {"#!\n", "its #! names no interpreter"},
      {"#!", "its #! names no interpreter"},
      {"#!  ", "its #! names no interpreter"},
      {"", "it exists, but its interpreter or loader does not"},
      {"text", "it exists, but its interpreter or loader does not"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    make_file(rows[i].content, strlen(rows[i].content), 0755);
    assert_says("file", ENOENT, formatted("cannot run file: %s", rows[i].says));
  }
}

TEST(long_names_are_cut, setup, teardown) {
  char script[4096] = "#!";
  memset(script + 2, 'i', sizeof script - 2);
  make_file(script, sizeof script, 0755);
  struct error error;
  explain(&error, "file", ENOENT);
  assert_non_null(strstr(error.text, " iiiiiiii"));
  assert_non_null(strstr(error.text, "i does not"));

  char path[4096];
  memset(path, '/', sizeof path - 1);
  (void)strcpy(path + sizeof path - 5, "file");
  path[0] = '.';
  static const int reasons[] = {ENOENT, EACCES, ENOEXEC, E2BIG, ENOMEM};
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
    explain(&error, path, reasons[i]);
    assert_memory_equal(error.text, "cannot run .///", 15);
    assert_true(strlen(error.text) < sizeof error.text - 1); /* the reason is not cut */
  }
}

struct program {
  Elf64_Ehdr elf;
  Elf64_Phdr segments[2];
  char interpreter[32];
};

static struct program make_program(uint16_t machine, const char *interpreter) {
  struct program program = {
      .elf = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
              .e_type = ET_DYN,
              .e_machine = machine,
              .e_phoff = offsetof(struct program, segments),
              .e_phnum = 2},
      .segments = {{.p_type = PT_LOAD},
                   {.p_type = PT_INTERP,
                    .p_offset = offsetof(struct program, interpreter),
                    .p_filesz = strlen(interpreter) + 1}}};
  (void)strcpy(program.interpreter, interpreter);
  return program;
}

TEST(a_missing_loader_is_named, setup, teardown) {
  struct program program = make_program(EM_X86_64, "/no/ld-linux.so.2");
  make_file(&program, sizeof program, 0755);
  assert_says("file", ENOENT,
              "cannot run file: it exists, but its loader /no/ld-linux.so.2 does not (built for "
              "another libc?)");
}

/* With a broken header, the message only lacks the name of the loader. */
TEST(the_loader_of_a_broken_program_is_not_named, setup, teardown) {
  static const char unnamed[] =
      "cannot run file: it exists, but its interpreter or loader does not";
  const struct program whole = make_program(EM_X86_64, "/no/ld.so");
  const size_t before_its_name = offsetof(struct program, interpreter);
  for (size_t length = 0; length <= before_its_name; length++) {
    make_file(&whole, length, 0755);
    assert_says("file", ENOENT, unnamed);
  }
  struct program rows[8];
  for (size_t i = 0; i < 8; i++)
    rows[i] = whole;
  rows[0].elf.e_phoff = UINT64_MAX - 3;
  rows[1].elf.e_phoff = 1U << 30;
  rows[2].elf.e_phnum = 0;
  rows[3].segments[1].p_offset = UINT64_MAX;
  rows[4].segments[1].p_offset = 1U << 30;
  rows[5].segments[1].p_filesz = 0;
  rows[6].segments[1].p_type = PT_NULL;
  rows[6].elf.e_phnum = UINT16_MAX;
  rows[7].elf.e_ident[EI_CLASS] = ELFCLASS32; /* its loader is not read */
  for (size_t i = 0; i < 8; i++) {
    make_file(&rows[i], sizeof rows[i], 0755);
    assert_says("file", ENOENT, unnamed);
  }
  struct program endless = whole;
  endless.segments[1].p_filesz = UINT64_MAX;
  memset(endless.interpreter, 'l', sizeof endless.interpreter);
  make_file(&endless, sizeof endless, 0755);
  struct error error;
  explain(&error, "file", ENOENT);
  assert_non_null(strstr(error.text, "its loader llll"));
}

TEST(a_file_that_is_not_a_program_is_explained, setup, teardown) {
  static const char *const contents[] = {"", "#", "text\n", "\177EL", "MZ\x90", "\177ELF\x02"};
  for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
    make_file(contents[i], strlen(contents[i]), 0755);
    assert_says("file", ENOEXEC,
                "cannot run file: exec format error: no program, and a script must begin with #!");
  }
}

TEST(a_program_for_another_machine_is_explained, setup, teardown) {
  static const struct {
    uint16_t machine;
    const char *name;
  } rows[] = {{EM_X86_64, "x86_64"}, {EM_AARCH64, "aarch64"},     {EM_386, "i386"},
              {EM_ARM, "arm"},       {EM_RISCV, "riscv"},         {EM_PPC64, "ppc64"},
              {EM_S390, "s390x"},    {EM_MIPS, "another machine"}};
  struct utsname own;
  assert_int_equal(uname(&own), 0);
  size_t ours = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bool is_ours = strncmp(own.machine, rows[i].name, strlen(rows[i].name)) == 0;
    const char *expected =
        formatted("cannot run file: exec format error: %s%s",
                  is_ours ? "no whole program" : "wrong architecture, built for ",
                  is_ours ? "" : rows[i].name);
    ours += is_ours;
    /* In both byte orders. */
    struct program program = make_program(htole16(rows[i].machine), "");
    make_file(&program, sizeof program, 0755);
    assert_says("file", ENOEXEC, expected);
    program.elf.e_ident[EI_DATA] = ELFDATA2MSB;
    program.elf.e_machine = htobe16(rows[i].machine);
    make_file(&program, sizeof program, 0755);
    assert_says("file", ENOEXEC, expected);
    /* The file ends before the field with the machine. */
    make_file(&program, offsetof(Elf64_Ehdr, e_machine) + 1, 0755);
    assert_says("file", ENOEXEC, "cannot run file: exec format error: no whole program");
  }
  assert_true(ours <= 1);
}

TEST_GROUP(injection_begin_group, NULL)
