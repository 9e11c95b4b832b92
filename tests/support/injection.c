#include "tests/support/injection.h"

#include <dirent.h>
#include <ftw.h>
#include <sched.h>
#include <sys/mount.h>

#include "tests/test.h"

int injection_begin_group(void **state) {
  (void)state;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    print_error("these tests mount, which needs root: %s\n", strerror(errno));
    return -1;
  }
  return 0;
}

int injection_set_up(void **state) {
  struct injection *self = calloc(1, sizeof *self);
  assert_non_null(self);
  snprintf(self->path, sizeof self->path, "/tmp/inject-test-XXXXXX");
  assert_non_null(mkdtemp(self->path));
  assert_int_equal(chmod(self->path, 0755), 0);
  *state = self;
  return 0;
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *walk) {
  (void)file;
  (void)walk;
  return kind == FTW_DP ? rmdir(path) : unlink(path);
}

/* Unmounts the last mount below the path; returns false if there is none. */
static bool unmount_last(const char *path) {
  char line[PATH_MAX + 256], point[PATH_MAX], last[PATH_MAX] = "";
  FILE *mounts = fopen("/proc/self/mounts", "re");
  size_t length = strlen(path);
  assert_non_null(mounts);
  while (fgets(line, sizeof line, mounts) != NULL)
    if (sscanf(line, "%*s %4095s", point) == 1 && strncmp(point, path, length) == 0 &&
        point[length] == '/')
      memcpy(last, point, strlen(point) + 1);
  assert_int_equal(fclose(mounts), 0);
  return last[0] != '\0' && umount2(last, MNT_DETACH) == 0;
}

int injection_tear_down(void **state) {
  struct injection *self = *state;
  while (unmount_last(self->path))
    continue;
  assert_int_equal(nftw(self->path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
  free(self);
  return 0;
}

const char *injection_path(struct injection *self, const char *format, ...) {
  self->last_name = (self->last_name + 1) % (sizeof self->names / sizeof *self->names);
  char *path = self->names[self->last_name];
  size_t length = strlen(self->path);
  memcpy(path, self->path, length);
  path[length++] = '/';
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path + length, sizeof *self->names - length, format, arguments);
  va_end(arguments);
  return path;
}

void injection_use_root(struct injection *self) {
  snprintf(self->root, sizeof self->root, "%s/root", self->path);
  self->setup.root = self->root;
}

void injection_make_directory(struct injection *self, const char *name, mode_t mode, uid_t owner) {
  const char *path = injection_path(self, "%s", name);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(chown(path, owner, owner), 0);
  assert_int_equal(chmod(path, mode), 0);
}

void injection_write(struct injection *self, const char *name, const char *content, mode_t mode) {
  int fd = open(injection_path(self, "%s", name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

void injection_remove(struct injection *self, const char *name) {
  assert_int_equal(nftw(injection_path(self, "%s", name), remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void injection_mount(struct injection *self, const char *name, const char *options,
                     unsigned long flags) {
  injection_make_directory(self, name, 0755, 0);
  const char *path = injection_path(self, "%s", name);
  assert_int_equal(mount("tmpfs", path, "tmpfs", flags, options), 0);
  if ((flags & MS_RDONLY) == 0)
    assert_int_equal(chmod(path, 0755), 0);
}

void injection_remount(struct injection *self, const char *name, unsigned long flags) {
  assert_int_equal(
      mount(NULL, injection_path(self, "%s", name), NULL, MS_REMOUNT | MS_BIND | flags, NULL), 0);
}

struct agent_process *injection_start(const struct injection *self, const char *target) {
  const char *const arguments[] = {"--inject", target, NULL};
  struct agent_setup setup = self->setup;
  setup.arguments = arguments;
  return agent_process_start(&setup);
}

void injection_expect_success(struct agent_process *injector) {
  int code = agent_process_wait(injector, WAIT_BOUND_MS);
  if (code != 0)
    agent_process_fail(injector, "exit code %d, not 0", code);
  agent_process_free(injector);
}

void injection_succeeds(struct injection *self, const char *name) {
  injection_expect_success(injection_start(self, injection_path(self, "%s", name)));
}

void injection_expect_refusal(struct injection *self, const char *name, const char *where,
                              const char *reason, const char *advice) {
  struct agent_process *injector = injection_start(self, injection_path(self, "%s", name));
  int code = agent_process_wait(injector, WAIT_BOUND_MS);
  const char *log = agent_process_log(injector);
  const char *const parts[] = {injection_path(self, "%s", where), reason, advice};
  if (code != 3)
    agent_process_fail(injector, "exit code %d, not 3", code);
  if (strchr(log, '\n') != log + strlen(log) - 1)
    agent_process_fail(injector, "not one line");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(log, parts[i]) == NULL)
      agent_process_fail(injector, "the log lacks `%s`", parts[i]);
  assert_string_equal(agent_process_output(injector), "");
  agent_process_free(injector);
}

static char *read_file(int fd, size_t *size) {
  struct stat file;
  assert_int_equal(fstat(fd, &file), 0);
  char *bytes = malloc((size_t)file.st_size + 1);
  assert_non_null(bytes);
  ssize_t length = read(fd, bytes, (size_t)file.st_size + 1);
  assert_true(length >= 0);
  *size = (size_t)length;
  return bytes;
}

enum injection_state injection_look(const char *path) {
  struct stat file;
  int copy = open(path, O_RDONLY | O_CLOEXEC);
  if (copy < 0)
    return errno == ENOENT ? INJECTION_ABSENT : INJECTION_OTHER;
  int program = open(agent_process_program(), O_RDONLY | O_CLOEXEC);
  assert_true(program >= 0);
  size_t copy_size;
  size_t program_size;
  char *copy_bytes = read_file(copy, &copy_size);
  char *program_bytes = read_file(program, &program_size);
  bool whole = copy_size == program_size && memcmp(copy_bytes, program_bytes, copy_size) == 0 &&
               fstat(copy, &file) == 0 &&
               (file.st_mode == (S_IFREG | 0755) || file.st_mode == (S_IFREG | 0111));
  free(copy_bytes);
  free(program_bytes);
  close(copy);
  close(program);
  return whole ? INJECTION_WHOLE : INJECTION_OTHER;
}

void injection_expect_copy(struct injection *self, const char *name) {
  const char *path = injection_path(self, "%s", name);
  struct stat file;
  assert_int_equal(lstat(path, &file), 0);
  assert_int_equal(file.st_mode, S_IFREG | 0111);
  assert_int_equal(injection_look(path), INJECTION_WHOLE);
}

static int count_below(int fd) {
  DIR *directory = fdopendir(fd);
  assert_non_null(directory);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    count++;
    int below =
        openat(dirfd(directory), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0)
      count += count_below(below);
  }
  closedir(directory);
  return count;
}

int injection_count(struct injection *self, const char *name) {
  int fd = open(injection_path(self, "%s", name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0);
  return count_below(fd);
}

void injection_makes(struct injection *self, const char *name, const char *copy) {
  injection_succeeds(self, name);
  injection_expect_copy(self, copy);
}
