/* `/ca-certificates.crt` in the carrier image: copied beside the agent, which trusts it where the
   image that it runs in has no bundle. */

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/certificates.h"
#include "tests/support/injection.h"
#include "tests/support/job.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { AT_ONCE = 20 };

#define BUNDLE "ca-certificates.crt"

/* A carrier without a bundle; the test's injectors run in it. */
static int set_up_carrier(void **state) {
  injection_set_up(state);
  struct injection *self = *state;
  injection_make_directory(self, "root", 0755, 0);
  injection_make_directory(self, "root/shared", 0755, 0);
  injection_succeeds(self, "root/agent");
  injection_use_root(self);
  return 0;
}

#define CARRIER_TEST(NAME)                                                                         \
  TEST_WITH_IF(agent_process_is_shipped(), struct injection *self, NAME, set_up_carrier,           \
               injection_tear_down)

static void inject(struct injection *self, const char *target) {
  injection_has_succeeded(injection_start(self, target));
}

static void put_bundle(struct injection *self, const char *content) {
  (void)unlink(injection_path(self, "root/" BUNDLE));
  injection_write(self, "root/" BUNDLE, content, 0600);
}

static void expect_content(struct injection *self, const char *name, const char *expected) {
  const char *path = injection_path(self, "%s", name);
  char content[64] = "";
  struct stat file;
  FILE *in = fopen(path, "re");
  if (in == NULL)
    fail_msg("no %s", name);
  assert_int_equal(fread(content, 1, sizeof content - 1, in), strlen(expected));
  fclose(in);
  assert_string_equal(content, expected);
  assert_int_equal(lstat(path, &file), 0);
  assert_int_equal(file.st_mode, S_IFREG | 0644);
}

static void is_refused(struct injection *self, const char *target, const char *where,
                       const char *reason) {
  struct agent_process *injector = injection_start(self, target);
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 3);
  if (strstr(agent_process_log(injector), where) == NULL ||
      strstr(agent_process_log(injector), reason) == NULL)
    agent_process_fail(injector, "no word of %s, or of %s", where, reason);
  agent_process_free(injector);
}

CARRIER_TEST(it_is_copied_for_everybody) {
  put_bundle(self, "authorities");
  mode_t before = umask(077);
  inject(self, "/a/shared/");
  umask(before);
  injection_expect_copy(self, "root/a/shared/agent");
  expect_content(self, "root/a/shared/" BUNDLE, "authorities");
  assert_int_equal(injection_count(self, "root/a/shared"), 2);
}

CARRIER_TEST(without_one_there_is_none) {
  inject(self, "/shared/");
  assert_int_equal(injection_count(self, "root/shared"), 1);
  injection_make_directory(self, "root/" BUNDLE, 0755, 0); /* no file is no bundle */
  inject(self, "/shared/");
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

/* Nor does it take the bundle of the place where it runs for the carrier's. */
INJECTION_TEST(a_machine_is_no_carrier) {
  injection_make_directory(self, "shared", 0755, 0);
  injection_succeeds(self, "shared/agent");
  assert_int_equal(injection_count(self, "shared"), 1);
}

CARRIER_TEST(the_next_injection_replaces_it) {
  put_bundle(self, "some authorities");
  inject(self, "/shared/");
  put_bundle(self, "others");
  inject(self, "/shared/");
  expect_content(self, "root/shared/" BUNDLE, "others");
  inject(self, "/shared/");
  expect_content(self, "root/shared/" BUNDLE, "others");
  assert_int_equal(injection_count(self, "root/shared"), 2);
}

CARRIER_TEST(a_link_is_replaced_and_not_written_through) {
  put_bundle(self, "authorities");
  injection_write(self, "root/precious", "precious", 0644);
  assert_int_equal(symlink("../precious", injection_path(self, "root/shared/" BUNDLE)), 0);
  inject(self, "/shared/");
  expect_content(self, "root/shared/" BUNDLE, "authorities");
  expect_content(self, "root/precious", "precious");
}

CARRIER_TEST(it_goes_with_the_tools) {
  put_bundle(self, "authorities");
  injection_make_directory(self, "root/python", 0755, 0);
  injection_make_directory(self, "root/python/bin", 0755, 0);
  inject(self, "/shared/");
  inject(self, "/shared/");
  expect_content(self, "root/shared/" BUNDLE, "authorities");
  assert_int_equal(injection_count(self, "root/shared"), 4);
}

CARRIER_TEST(another_user_may_inject_it_twice) {
  put_bundle(self, "authorities");
  assert_int_equal(chmod(injection_path(self, "root/" BUNDLE), 0444), 0);
  assert_int_equal(chown(injection_path(self, "root/shared"), 1000, 1000), 0);
  self->setup.uid = 1000;
  inject(self, "/shared/");
  inject(self, "/shared/");
  expect_content(self, "root/shared/" BUNDLE, "authorities");
}

CARRIER_TEST(many_at_once_leave_one) {
  struct agent_process *injectors[AT_ONCE];
  put_bundle(self, "authorities");
  for (int i = 0; i < AT_ONCE; i++)
    injectors[i] = injection_start(self, "/shared/");
  for (int i = 0; i < AT_ONCE; i++)
    injection_has_succeeded(injectors[i]);
  expect_content(self, "root/shared/" BUNDLE, "authorities");
  assert_int_equal(injection_count(self, "root/shared"), 2);
}

/* --- where it cannot be done ----------------------------------------------------------------- */

CARRIER_TEST(one_that_cannot_be_read) {
  put_bundle(self, "authorities");
  assert_int_equal(chown(injection_path(self, "root/shared"), 1000, 1000), 0);
  self->setup.uid = 1000;
  is_refused(self, "/shared/a/agent", "cannot read /" BUNDLE, "Permission denied");
  assert_int_equal(injection_count(self, "root/shared"), 0);
}

CARRIER_TEST(a_directory_in_its_place) {
  put_bundle(self, "authorities");
  injection_make_directory(self, "root/shared/" BUNDLE, 0755, 0);
  is_refused(self, "/shared", "cannot replace /shared/" BUNDLE, "Is a directory");
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

CARRIER_TEST(a_fifo_in_its_place) {
  put_bundle(self, "authorities");
  assert_int_equal(mkfifo(injection_path(self, "root/shared/" BUNDLE), 0644), 0);
  is_refused(self, "/shared", "cannot replace /shared/" BUNDLE, "is a FIFO, not a regular file");
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

CARRIER_TEST(the_agent_does_not_take_its_name) {
  put_bundle(self, "authorities");
  is_refused(self, "/shared/" BUNDLE, "cannot inject into /shared/" BUNDLE, "name another target");
  assert_int_equal(injection_count(self, "root/shared"), 0);
}

/* Room for the program, and not for the bundle. */
CARRIER_TEST(a_full_disk_leaves_neither) {
  struct stat program;
  assert_int_equal(stat(injection_path(self, "root/agent"), &program), 0);
  char options[32], big[128 * 1024];
  snprintf(options, sizeof options, "size=%lld", (long long)program.st_size + 64 * 1024);
  memset(big, 'x', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  put_bundle(self, big);
  injection_mount(self, "root/full", options, 0);
  is_refused(self, "/full/deep/agent", "/full/deep/" BUNDLE, "No space left");
  assert_int_equal(injection_count(self, "root/full"), 0);
}

/* The program's rename fails after that of the bundle: nothing can take a mount's place. */
CARRIER_TEST(what_was_there_comes_back) {
  put_bundle(self, "authorities");
  inject(self, "/shared/");
  put_bundle(self, "others");
  const char *target = injection_path(self, "root/shared/agent");
  assert_int_equal(mount(injection_path(self, "root/agent"), target, NULL, MS_BIND, NULL), 0);
  is_refused(self, "/shared", "/shared/agent", "busy");
  expect_content(self, "root/shared/" BUNDLE, "authorities");
  assert_int_equal(unlink(injection_path(self, "root/shared/" BUNDLE)), 0);
  is_refused(self, "/shared", "/shared/agent", "busy");
  assert_int_equal(umount(target), 0);
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

/* --- what it is there for -------------------------------------------------------------------- */

/* The agent is in it, without authorities, and there is a server. */
static struct job *prepare_volume(struct injection *self, struct certificates *certificates) {
  certificates_add(certificates, &(struct certificate){.name = "server"});
  inject(self, "/shared/");
  injection_make_directory(self, "root/shared/proc", 0755, 0);
  assert_int_equal(mount("proc", injection_path(self, "root/shared/proc"), "proc", 0, NULL), 0);
  return job_new(redis_server_start_tls(certificates, NULL));
}

/* The agent is alone there, with what was injected beside it: the root of an empty image. */
static void start_in_volume(struct injection *self, struct job *job) {
  static char root[64];
  snprintf(root, sizeof root, "%s", injection_path(self, "root/shared"));
  job->setup = (struct agent_setup){.root = root};
  job->url = job_format(job, "rediss://%s127.0.0.1:%d", redis_server_login(),
                        redis_server_tls_port(job->server));
  job_start_agent(job, NULL);
}

CARRIER_TEST(an_image_without_authorities_gets_these) {
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

/* In a directory that is made for it. */
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

/* The first that there is, of those of the distributions and the one beside the agent. */
CARRIER_TEST(an_image_may_have_authorities) {
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
