/* The carrier image: `--inject` also copies `/python`, which steps find, the client `/sandbox`, and
   `/ca-certificates.crt`, which the agent trusts if its image has no bundle. */

#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/support/certificates.h"
#include "tests/support/injection.h"
#include "tests/support/job.h"

enum { OLD = 1000000000 };

#define BUNDLE "ca-certificates.crt"
#define CLIENT "sandbox"

/* The number of files beside the agent after all were copied. */
enum { BESIDE = 3 };

/* A root with only the program and a directory of user 1000. The injectors run in it. */
static int set_up_carrier(void **state) {
  injection_set_up(state);
  struct injection *self = *state;
  injection_make_directory(self, "root", 0755, 0);
  injection_make_directory(self, "root/shared", 0755, 1000);
  injection_succeeds(self, "root/agent");
  assert_int_equal(chmod(injection_path(self, "root/agent"), 0755),
                   0); /* as in the carrier image */
  injection_use_root(self);
  return 0;
}

#define CARRIER_TEST(NAME)                                                                         \
  TEST_WITH_IF(agent_process_is_shipped(), struct injection *self, NAME, set_up_carrier,           \
               injection_tear_down)

/* The entries that /python may have; `content` is the content of a file or the target of a link. */
static const struct entry {
  const char *name;
  mode_t mode;
  const char *content;
} entries[] = {
    {"bin", S_IFDIR | 0755, NULL},
    {"bin/tool", S_IFREG | 0755, "#!/bin/sh\necho the tool\n"},
    {"bin/other", S_IFLNK | 0777, "tool"},
    {"bin/dangling", S_IFLNK | 0777, "/nowhere"},
    {"bin/loop", S_IFLNK | 0777, "loop"},
    {"lib", S_IFDIR | 0555, NULL},
    {"lib/module.py", S_IFREG | 0444, "x = 1\n"},
    {"lib/.hidden", S_IFREG | 0644, ""},
    {"lib/...", S_IFREG | 06755, "dots"},
    {"lib/a b\n%s", S_IFREG | 0604, "a strange name"},
    {"lib/deep", S_IFDIR | 01777, NULL},
    {"lib/deep/empty", S_IFDIR | 0755, NULL},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

static void put_tools(struct injection *self) {
  const struct timespec times[] = {{.tv_sec = OLD}, {.tv_sec = OLD, .tv_nsec = 123456789}};
  injection_make_directory(self, "root/python", 0755, 0);
  for (size_t i = 0; i < ENTRIES; i++) {
    char name[64];
    snprintf(name, sizeof name, "root/python/%s", entries[i].name);
    if (S_ISLNK(entries[i].mode))
      assert_int_equal(symlink(entries[i].content, injection_path(self, "%s", name)), 0);
    else if (S_ISDIR(entries[i].mode))
      injection_make_directory(self, name, entries[i].mode & 07777, 0);
    else
      injection_write(self, name, entries[i].content, entries[i].mode & 07777);
  }
  assert_int_equal(mkfifo(injection_path(self, "root/python/lib/fifo"), 0644),
                   0); /* is not copied */
  for (size_t i = ENTRIES; i-- > 0;)
    assert_int_equal(utimensat(0, injection_path(self, "root/python/%s", entries[i].name), times,
                               AT_SYMLINK_NOFOLLOW),
                     0);
}

/* Replaces the file; its mode does not matter. */
static void put_file(struct injection *self, const char *name, const char *content) {
  const char *path = injection_path(self, "root/%s", name);
  (void)unlink(path);
  injection_write(self, path + strlen(self->path) + 1, content, 0444);
}

static void put_files(struct injection *self) {
  put_file(self, BUNDLE, "authorities");
  put_file(self, CLIENT, "client");
}

static void inject(struct injection *self, const char *target) {
  injection_expect_success(injection_start(self, target));
}

static struct stat look(struct injection *self, const char *name) {
  struct stat file;
  if (lstat(injection_path(self, "%s", name), &file) != 0)
    fail_msg("no %s", name);
  return file;
}

static void expect_content(struct injection *self, const char *name, mode_t mode,
                           const char *expected) {
  char content[64] = "";
  FILE *in = fopen(injection_path(self, "%s", name), "re");
  if (in == NULL)
    fail_msg("no %s", name);
  assert_int_equal(fread(content, 1, sizeof content - 1, in), strlen(expected));
  fclose(in);
  assert_string_equal(content, expected);
  assert_int_equal(look(self, name).st_mode, mode);
}

static void expect_files(struct injection *self, const char *bundle, const char *client) {
  expect_content(self, "root/shared/" BUNDLE, S_IFREG | 0644, bundle);
  expect_content(self, "root/shared/" CLIENT, S_IFREG | 0755, client);
}

static void expect_entry(struct injection *self, const struct entry *entry) {
  char name[64], target[64] = "";
  snprintf(name, sizeof name, "root/shared/python/%s", entry->name);
  struct stat found = look(self, name);
  assert_int_equal(found.st_mode, entry->mode);
  if (S_ISLNK(entry->mode)) {
    assert_true(readlink(injection_path(self, "%s", name), target, sizeof target - 1) > 0);
    assert_string_equal(target, entry->content);
    return;
  }
  if (S_ISREG(entry->mode))
    expect_content(self, name, entry->mode, entry->content);
  assert_int_equal(found.st_mtim.tv_sec, OLD);
  assert_int_equal(found.st_mtim.tv_nsec, 123456789);
}

/* Root and another user inject with any umask, and again over files that are not writable. */
CARRIER_TEST(inject_copies_tools_authorities_and_client) {
  put_tools(self);
  put_files(self);
  for (int i = 0; i < 4; i++) {
    self->setup.uid = i < 2 ? 1000 : 0;
    mode_t before = umask(i % 2 == 0 ? 0777 : 077);
    inject(self, "/shared/");
    umask(before);
    injection_expect_copy(self, "root/shared/agent");
    expect_files(self, "authorities", "client");
    assert_int_equal(look(self, "root/shared/python").st_mode, S_IFDIR | 0755);
    for (size_t k = 0; k < ENTRIES; k++)
      expect_entry(self, &entries[k]);
    assert_int_equal(injection_count(self, "root/shared"), ENTRIES + 1 + BESIDE);
  }
}

CARRIER_TEST(inject_copies_only_the_files_of_the_carrier) {
  inject(self, "/shared/");
  injection_write(self, "root/python", "no directory is no tools", 0644);
  injection_make_directory(self, "root/" BUNDLE, 0755, 0); /* a directory is not a bundle */
  injection_make_directory(self, "root/" CLIENT, 0755, 0);
  inject(self, "/shared/");
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

/* The bundle of the machine is not copied either. */
INJECTION_TEST(inject_copies_nothing_else_from_an_ordinary_machine) {
  injection_make_directory(self, "shared", 0755, 0);
  injection_succeeds(self, "shared/agent");
  assert_int_equal(injection_count(self, "shared"), 1);
}

CARRIER_TEST(the_next_injection_replaces_all_copies) {
  put_tools(self);
  put_file(self, BUNDLE, "some authorities");
  put_file(self, CLIENT, "a client");
  inject(self, "/shared/");
  put_file(self, BUNDLE, "others");
  put_file(self, CLIENT, "newer");
  assert_int_equal(unlink(injection_path(self, "root/python/bin/other")), 0);
  injection_write(self, "root/python/bin/new", "", 0755);
  injection_write(self, "root/shared/python/lib/stray", "", 0644);
  inject(self, "/shared");
  expect_files(self, "others", "newer");
  assert_int_equal(look(self, "root/shared/python/bin/new").st_mode, S_IFREG | 0755);
  assert_int_equal(injection_count(self, "root/shared"), ENTRIES + 1 + BESIDE);
  assert_int_equal(injection_count(self, "root/shared/python/bin"), 4);
}

CARRIER_TEST(inject_replaces_a_link_and_does_not_follow_it) {
  put_files(self);
  injection_write(self, "root/precious", "precious", 0644);
  assert_int_equal(symlink("../precious", injection_path(self, "root/shared/" BUNDLE)), 0);
  assert_int_equal(symlink("../precious", injection_path(self, "root/shared/" CLIENT)), 0);
  inject(self, "/shared/");
  expect_files(self, "authorities", "client");
  expect_content(self, "root/precious", S_IFREG | 0644, "precious");
}

/* --- failures --------------------------------------------------------------------------------- */

static void expect_refusal(struct injection *self, const char *target, const char *where,
                           const char *reason) {
  struct agent_process *injector = injection_start(self, target);
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 3);
  if (strstr(agent_process_log(injector), where) == NULL ||
      strstr(agent_process_log(injector), reason) == NULL)
    agent_process_fail(injector, "the log lacks `%s` or `%s`", where, reason);
  agent_process_free(injector);
}

/* If one of them cannot be placed, none is. */
CARRIER_TEST(a_failed_injection_is_explained_and_leaves_nothing) {
  static const struct {
    const char *target, *where, *reason;
  } rows[] = {
      {"/tools/file", "/tools/file/python", "Not a directory"},
      {"/tools/fifo", "/tools/fifo/python", "is a FIFO, not a directory"},
      {"/tools/link", "/tools/link/python", "is a symbolic link, not a directory"},
      {"/taken", "/taken/agent", "Is a directory"},
      {"/bundle/directory", "cannot replace /bundle/directory/" BUNDLE, "Is a directory"},
      {"/bundle/fifo", "cannot replace /bundle/fifo/" BUNDLE, "is a FIFO, not a regular file"},
      {"/client/directory", "cannot replace /client/directory/" CLIENT, "Is a directory"},
      {"/shared/" CLIENT, "cannot inject into /shared/" CLIENT, "name another target"},
      {"/shared/" BUNDLE, "cannot inject into /shared/" BUNDLE, "name another target"},
      {"/shared/python", "/shared/python", "tools"},
      {"/python", "/python/agent", "tools"},
      {"/python/lib/deep/er/", "/python/lib/deep/er/agent", "tools"},
  };
  static const char *const directories[] = {"tools",
                                            "tools/file",
                                            "tools/fifo",
                                            "tools/link",
                                            "bundle",
                                            "bundle/fifo",
                                            "bundle/directory",
                                            "bundle/directory/ca-certificates.crt",
                                            "client",
                                            "client/directory",
                                            "client/directory/sandbox",
                                            "taken",
                                            "taken/agent"};
  char name[64];
  put_tools(self);
  put_files(self);
  for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
    snprintf(name, sizeof name, "root/%s", directories[i]);
    injection_make_directory(self, name, 0755, 0);
  }
  injection_write(self, "root/tools/file/python", "mine", 0644);
  assert_int_equal(mkfifo(injection_path(self, "root/tools/fifo/python"), 0644), 0);
  assert_int_equal(symlink("../file", injection_path(self, "root/tools/link/python")), 0);
  assert_int_equal(mkfifo(injection_path(self, "root/bundle/fifo/" BUNDLE), 0644), 0);
  int before = injection_count(self, "root");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    expect_refusal(self, rows[i].target, rows[i].where, rows[i].reason);
    assert_int_equal(injection_count(self, "root"), before);
  }
}

CARRIER_TEST(inject_names_a_file_that_it_cannot_read) {
  put_tools(self);
  put_files(self);
  self->setup.uid = 1000;
  assert_int_equal(chmod(injection_path(self, "root/" BUNDLE), 0600), 0);
  expect_refusal(self, "/shared/a/agent", "cannot read /" BUNDLE, "Permission denied");
  assert_int_equal(chmod(injection_path(self, "root/" BUNDLE), 0644), 0);
  assert_int_equal(chmod(injection_path(self, "root/" CLIENT), 0600), 0);
  expect_refusal(self, "/shared/a/agent", "cannot read /" CLIENT, "Permission denied");
  assert_int_equal(chmod(injection_path(self, "root/python/lib/.hidden"), 0600), 0);
  expect_refusal(self, "/shared/a/agent", "/shared/a/python/lib/.hidden", "Permission denied");
  assert_int_equal(injection_count(self, "root/shared"), 0);
}

static void limit_file_size(const void *context) {
  (void)context;
  const struct rlimit limit = {1000, 1000};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

CARRIER_TEST(a_file_size_limit_is_an_error) {
  self->setup.prepare = limit_file_size;
  expect_refusal(self, "/new/agent", "/new/agent", "File too large");
  assert_int_not_equal(access(injection_path(self, "root/new"), F_OK), 0);
}

/* The last rename fails because a mount cannot be replaced. Files that were renamed before are
   complete. */
CARRIER_TEST(a_failed_rename_leaves_no_hidden_files) {
  put_tools(self);
  put_files(self);
  injection_write(self, "root/shared/agent", "old", 0755);
  const char *target = injection_path(self, "root/shared/agent");
  assert_int_equal(mount(injection_path(self, "root/agent"), target, NULL, MS_BIND, NULL), 0);
  expect_refusal(self, "/shared", "/shared/agent", "busy");
  assert_int_equal(umount(target), 0);
  expect_content(self, "root/shared/agent", S_IFREG | 0755, "old");
  expect_files(self, "authorities", "client");
  for (size_t k = 0; k < ENTRIES; k++)
    expect_entry(self, &entries[k]);
  assert_int_equal(injection_count(self, "root/shared"), ENTRIES + 1 + BESIDE);
}

/* --- use -------------------------------------------------------------------------------------- */

static struct job *start_job(struct injection *self, const char *const *environment) {
  void *state;
  job_setup_server(&state);
  struct job *job = state;
  job->setup = (struct agent_setup){.program = injection_path(self, "root/shared/agent"),
                                    .environment = environment};
  job_start_agent(job, NULL);
  return job;
}

/* Checks one more step, and ends the job. */
static void expect_last(struct job *job, const cJSON *step, const char *output) {
  job_expect_result(job, job_run(job, step), 0, NULL, output);
  job_shut_down(job);
  job_free(job);
}

CARRIER_TEST(steps_find_the_injected_tools_first) {
  put_tools(self);
  inject(self, "/shared/");
  struct job *job = start_job(self, (const char *const[]){"PATH=/usr/bin:/bin", NULL});
  job_expect_result(job, job_run(job, job_step(job, "tool", NULL)), 0, NULL, "the tool\n");
  expect_last(job, job_script(job, "echo \"$PATH\""),
              job_format(job, "%s/root/shared/python/bin:/usr/bin:/bin\n", self->path));
}

CARRIER_TEST(a_step_can_set_its_own_path) {
  put_tools(self);
  inject(self, "/shared/");
  struct job *job = start_job(self, NULL);
  cJSON *step = job_script(job, "echo \"$PATH\"; tool || echo none");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "PATH", "/usr/bin:/bin");
  expect_last(job, step, "/usr/bin:/bin\nnone\n");
}

INJECTION_TEST(path_is_unchanged_without_injected_tools) {
  injection_succeeds(self, "root/shared/agent");
  struct job *job = start_job(self, (const char *const[]){"PATH=/usr/bin:/bin", NULL});
  expect_last(job, job_script(job, "echo \"$PATH\""), "/usr/bin:/bin\n");
}

/* Prepares a volume with the agent, without authorities, and a server. */
static struct job *prepare_volume(struct injection *self, struct certificates *certificates) {
  certificates_add(certificates, &(struct certificate){.name = "server"});
  inject(self, "/shared/");
  injection_make_directory(self, "root/shared/proc", 0755, 0);
  assert_int_equal(mount("proc", injection_path(self, "root/shared/proc"), "proc", 0, NULL), 0);
  return job_new(redis_server_start_tls(certificates, NULL));
}

/* Starts the agent in a root that has only the injected files, as in an empty image. */
static void start_in_volume(struct injection *self, struct job *job) {
  static char root[64];
  snprintf(root, sizeof root, "%s", injection_path(self, "root/shared"));
  job->setup = (struct agent_setup){.root = root};
  job->url = job_format(job, "rediss://%s127.0.0.1:%d", redis_server_login(),
                        redis_server_tls_port(job->server));
  job_start_agent(job, NULL);
}

CARRIER_TEST(an_image_without_authorities_uses_the_injected_ones) {
  struct certificates *certificates = certificates_new();
  certificates_add_authority(certificates, "ca");
  struct job *job = prepare_volume(self, certificates);
  start_in_volume(self, job);
  job_expect_exit(job, 3);
  agent_process_wait_log(job->agent, "there is no " BUNDLE " beside the agent");
  assert_int_equal(
      link(certificates_path(certificates, "ca.pem"), injection_path(self, "root/" BUNDLE)), 0);
  inject(self, "/shared/");
  start_in_volume(self, job);
  job_shut_down(job);
  job_free(job);
  certificates_free(certificates);
}

/* Puts the file at this path, and makes the directories above. */
static void put_authority(struct injection *self, const char *path, const char *content) {
  char directory[80];
  for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
    (void)snprintf(directory, sizeof directory, "root/shared/%.*s", (int)(slash - path), path);
    (void)mkdir(injection_path(self, "%s", directory), 0755);
  }
  const char *target = injection_path(self, "root/shared/%s", path);
  (void)unlink(target);
  assert_int_equal(link(content, target), 0);
}

/* The agent uses the first bundle of the distributions' paths that exists, or else the one beside
   it. */
CARRIER_TEST(the_authorities_of_the_image_come_first) {
  static const char *const paths[] = {"etc/ssl/certs/ca-certificates.crt",
                                      "etc/pki/tls/certs/ca-bundle.crt",
                                      "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                      "etc/ssl/ca-bundle.pem",
                                      "var/lib/ca-certificates/ca-bundle.pem",
                                      BUNDLE};
  struct certificates *certificates = certificates_new();
  certificates_add_authority(certificates, "ca");
  certificates_add_authority(certificates, "other");
  struct job *job = prepare_volume(self, certificates);
  for (size_t i = sizeof paths / sizeof *paths; i-- > 0;) {
    put_authority(self, paths[i], certificates_path(certificates, "ca.pem"));
    start_in_volume(self, job);
    job_shut_down(job);
    put_authority(self, paths[i], certificates_path(certificates, "other.pem"));
  }
  start_in_volume(self, job);
  agent_process_wait_log(job->agent, "is signed by CN=Authority ca, which is not trusted");
  job_free(job);
  certificates_free(certificates);
}

TEST_GROUP(injection_begin_group, NULL)
