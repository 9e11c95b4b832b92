/* Redis over TLS: the certificates that the agent accepts and refuses, and its error messages. */

#include "tests/support/certificates.h"
#include "tests/support/job.h"

#define RSA "rsa:2048"

struct scene {
  struct certificates *certificates;
  struct job *job; /* its own connection is plain; NULL without a server */
  int port;        /* the port of TLS */
};

static int set_up(void **state) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->certificates = certificates_new();
  certificates_add_authority(self->certificates, "ca");
  *state = self;
  return 0;
}

/* Ends the server, so that the next one can have other certificates. */
static void end_server(struct scene *self) {
  job_free(self->job);
  self->job = NULL;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  end_server(self);
  certificates_free(self->certificates);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static const char *path_of(const struct scene *self, const char *file) {
  return certificates_path(self->certificates, file);
}

/* Starts a server with the certificate "server" and one more option, or NULL. */
static void serve(struct scene *self, const char *option, const char *value) {
  static const char *extra[3];
  extra[0] = option;
  extra[1] = value;
  struct redis_server *server = redis_server_start_tls(self->certificates, extra);
  self->port = redis_server_tls_port(server);
  self->job = job_new(server);
}

static void start_server(struct scene *self, const struct certificate *certificate,
                         const char *option, const char *value) {
  certificates_add(self->certificates, certificate);
  serve(self, option, value);
}

static const char *url_of(struct scene *self, const char *scheme, const char *host) {
  return job_format(self->job, "%s://%s%s:%d", scheme, redis_server_login(), host, self->port);
}

static void start_agent(struct scene *self, const char *host, const char *flag, const char *value) {
  self->job->url = url_of(self, "rediss", host);
  job_start_agent(self->job, "--cacert", path_of(self, "ca.pem"), flag, value, NULL);
}

static void expect_to_work(struct scene *self) {
  job_expect_to_go_on(self->job);
  job_shut_down(self->job);
}

/* The agent never connects, and logs this reason. */
static void expect_refusal(struct scene *self, const char *why) {
  agent_process_wait_log(self->job->agent, why);
  job_stop_agent(self->job, SIGTERM);
}

/* --- what is accepted ------------------------------------------------------------------------- */

SCENE_TEST(a_valid_certificate_is_accepted) {
  static const struct {
    const char *host, *sni, *protocols;
    struct certificate certificate;
  } rows[] = {{"localhost", NULL, NULL, {.name = "server"}},
              {"127.0.0.1", NULL, NULL, {.name = "server"}},
              {"localhost", NULL, NULL, {.name = "server", .key = RSA}},
              {"localhost", NULL, "TLSv1.2", {.name = "server", .key = RSA}},
              {"localhost", NULL, "TLSv1.3", {.name = "server"}},
              {"127.0.0.1", "redis.test", NULL, {.name = "server", .names = "DNS:redis.test"}},
              {"127.0.0.1", "localhost.", NULL, {.name = "server"}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_server(scene, &rows[i].certificate, rows[i].protocols == NULL ? NULL : "--tls-protocols",
                 rows[i].protocols);
    start_agent(scene, rows[i].host, rows[i].sni == NULL ? NULL : "--sni", rows[i].sni);
    expect_to_work(scene);
    end_server(scene);
  }
}

SCENE_TEST(much_output_arrives_in_order_over_tls) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  start_agent(scene, "localhost", NULL, NULL);
  const cJSON *result = job_run(scene->job, job_script(scene->job, "seq 1 100000 | tail -n 3; "
                                                                   "seq 1 100000 >/dev/stderr"));
  job_expect_result(scene->job, result, 0, NULL, "99998\n99999\n100000\n");
  job_shut_down(scene->job);
}

SCENE_TEST(the_agent_authenticates_with_its_certificate) {
  start_server(scene, &(struct certificate){.name = "server"}, "--tls-auth-clients", "yes");
  certificates_add(scene->certificates, &(struct certificate){.name = "client"});
  scene->job->url = url_of(scene, "rediss", "localhost");
  job_start_agent(scene->job, "--cacert", path_of(scene, "ca.pem"), "--cert",
                  path_of(scene, "client.pem"), "--key", path_of(scene, "client.key"), NULL);
  expect_to_work(scene);
}

/* The agent has a plain URL, though the user expects TLS. */
SCENE_TEST(options_of_tls_are_named_if_they_have_no_effect) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  job_start_agent(scene->job, "--cacert", path_of(scene, "ca.pem"), NULL);
  agent_process_wait_log(scene->job->agent, "the TLS options have no effect");
  expect_to_work(scene);
}

/* One of the directories does not exist. */
SCENE_TEST(authorities_may_be_in_directories) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  const char *paths = job_format(scene->job, "/none:%s", path_of(scene, ""));
  assert_int_equal(mkfifo(path_of(scene, "fifo"), 0600), 0); /* which is skipped */
  scene->job->url = url_of(scene, "rediss", "localhost");
  job_start_agent(scene->job, "--cacertdir", paths, NULL);
  expect_to_work(scene);
  const char *const environment[] = {job_format(scene->job, "SSL_CERT_DIR=%s", paths), NULL};
  scene->job->setup.environment = environment;
  job_start_agent(scene->job, NULL);
  expect_to_work(scene);
}

/* A flag has precedence. */
SCENE_TEST(authorities_may_be_those_of_openssl) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  scene->job->url = url_of(scene, "rediss", "localhost");
  const char *const environment[] = {
      job_format(scene->job, "SSL_CERT_FILE=%s", path_of(scene, "ca.pem")), NULL};
  scene->job->setup.environment = environment;
  job_start_agent(scene->job, NULL);
  expect_to_work(scene);
  const char *const wrong[] = {"SSL_CERT_FILE=/none", NULL};
  scene->job->setup.environment = wrong;
  start_agent(scene, "localhost", NULL, NULL);
  expect_to_work(scene);
  scene->job->setup.environment = wrong;
  job_start_agent(scene->job, NULL);
  job_expect_exit(scene->job, 3);
  agent_process_wait_log(scene->job->agent, "SSL_CERT_FILE: cannot read /none");
}

SCENE_TEST(insecure_logs_a_warning) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  scene->job->url = url_of(scene, "rediss", "localhost");
  job_start_agent(scene->job, "--insecure", NULL);
  agent_process_wait_log(scene->job->agent, "--insecure: the server's certificate is not verified");
  expect_to_work(scene);
}

/* --- what is refused -------------------------------------------------------------------------- */

SCENE_TEST(an_invalid_certificate_is_rejected_with_the_reason) {
  static const struct {
    const char *host, *protocols, *reason;
    struct certificate certificate;
  } rows[] = {
      {"localhost",
       NULL,
       "the certificate of CN=server is signed by CN=Authority other, which is not trusted: pass "
       "the "
       "certificate of that authority with --cacert",
       {.name = "server", .authority = "other"}},
      {"localhost",
       NULL,
       "the certificate is for a.test, *.b.test, not for localhost: connect by a name that it has, "
       "or pass that with --sni",
       {.name = "server", .names = "DNS:a.test,DNS:*.b.test"}},
      {"127.0.0.1",
       NULL,
       "the certificate is for 127.0.0.2, not for 127.0.0.1 as a subjectAltName",
       {.name = "server", .names = "IP:127.0.0.2"}},
      {"localhost",
       NULL,
       "the certificate of CN=server expired on 2020-02-01 00:00 UTC (issuer CN=Authority ca)",
       {.name = "server", .begin = "20200101000000Z", .end = "20200201000000Z"}},
      {"localhost",
       NULL,
       "the certificate of CN=server is not valid before 2090-01-01 00:00 UTC",
       {.name = "server", .begin = "20900101000000Z", .end = "20910101000000Z"}},
      {"localhost",
       NULL,
       "the server's certificate is not for a server: its extendedKeyUsage lacks serverAuth",
       {.name = "server", .extension = "extendedKeyUsage=clientAuth"}},
      {"localhost",
       "TLSv1.1", /* the oldest version that the server offers */
       "the server speaks neither TLS 1.2 nor 1.3",
       {.name = "server", .key = RSA}},
  };
  certificates_add_authority(scene->certificates, "other");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_server(scene, &rows[i].certificate, rows[i].protocols == NULL ? NULL : "--tls-protocols",
                 rows[i].protocols);
    start_agent(scene, rows[i].host, NULL, NULL);
    expect_refusal(scene, rows[i].reason);
    end_server(scene);
  }
}

/* The server also sends the certificate of the authority, if `is_sent`. */
static void expect_unreadable(struct scene *self, const char *key, const char *extension,
                              bool is_sent) {
  certificates_add_authority_with(self->certificates, "odd", key, extension);
  certificates_add(self->certificates, &(struct certificate){.name = "server", .authority = "odd"});
  if (is_sent)
    certificates_append(self->certificates, "server", "odd");
  serve(self, NULL, NULL);
  static const char *const versions[] = {"TLSv1.3", "TLSv1.2"};
  for (int i = 0; i < 2; i++) {
    job_do(self->job, "CONFIG SET tls-protocols %s", versions[i]);
    start_agent(self, "localhost", NULL, NULL);
    expect_refusal(self, "the server has a certificate that cannot be read here");
  }
}

/* In TLS 1.3 each certificate also has extensions. */
SCENE_TEST(a_chain_that_is_too_long_is_named) {
  certificates_add(scene->certificates, &(struct certificate){.name = "server"});
  for (int i = 0; i < 60; i++)
    certificates_append(scene->certificates, "server", "ca");
  serve(scene, NULL, NULL);
  static const char *const versions[] = {"TLSv1.3", "TLSv1.2"};
  for (int i = 0; i < 2; i++) {
    job_do(scene->job, "CONFIG SET tls-protocols %s", versions[i]);
    start_agent(scene, "localhost", NULL, NULL);
    expect_refusal(scene, "the server sends more than 16 KiB of certificates");
  }
}

SCENE_TEST(an_unknown_kind_of_certificate_is_named) {
  expect_unreadable(scene, "ec -pkeyopt ec_paramgen_curve:P-521", NULL, true);
  end_server(scene);
  expect_unreadable(scene, "ed25519", NULL, false);
  end_server(scene);
  expect_unreadable(scene, "ec -pkeyopt ec_paramgen_curve:P-256",
                    "'nameConstraints=critical,permitted;DNS:localhost'", true);
}

SCENE_TEST(the_certificate_of_a_sentinel_is_checked) {
  certificates_add_authority(scene->certificates, "other");
  start_server(scene, &(struct certificate){.name = "server", .authority = "other"}, NULL, NULL);
  scene->job->url =
      job_format(scene->job, "%s/pipelines", url_of(scene, "rediss+sentinel", "localhost"));
  job_start_agent(scene->job, "--cacert", path_of(scene, "ca.pem"), NULL);
  expect_refusal(scene, job_format(scene->job,
                                   "sentinel localhost:%d: the certificate of CN=server is signed "
                                   "by CN=Authority other, which is not trusted: pass the "
                                   "certificate of that authority with --cacert",
                                   scene->port));
}

/* The server sends the reason and closes while the agent still writes. */
static void expect_reason(struct scene *self, const char *why) {
  agent_process_wait_log(self->job->agent, why);
  const char *log = agent_process_log(self->job->agent);
  assert_null(strstr(log, "Broken pipe"));
  assert_null(strstr(log, "reset by peer"));
  job_stop_agent(self->job, SIGTERM);
}

static void expect_client_refused(struct scene *self, const char *version) {
  const char *missing = "the server wants a client's certificate: pass one with --cert and --key";
  if (strcmp(version, "TLSv1.2") == 0) /* has no alert for it */
    missing = "the server refuses the handshake: it wants a client's certificate (--cert, --key)";
  certificates_add_authority(self->certificates, "other");
  certificates_add(self->certificates,
                   &(struct certificate){.name = "client", .authority = "other"});
  start_server(self, &(struct certificate){.name = "server"}, "--tls-auth-clients", "yes");
  job_do(self->job, "CONFIG SET tls-protocols %s", version);
  start_agent(self, "localhost", NULL, NULL);
  expect_reason(self, missing);
  job_start_agent(self->job, "--cacert", path_of(self, "ca.pem"), "--cert",
                  path_of(self, "client.pem"), "--key", path_of(self, "client.key"), NULL);
  expect_reason(self, "the server refuses the certificate of --cert");
}

SCENE_TEST(a_server_that_refuses_the_client_is_named_with_its_reason) {
  expect_client_refused(scene, "TLSv1.3");
  end_server(scene);
  expect_client_refused(scene, "TLSv1.2");
}

static bool is_past(void *end) {
  return time(NULL) > *(const time_t *)end;
}

/* Open connections stay. */
SCENE_TEST(a_certificate_may_expire_while_the_agent_is_connected) {
  time_t soon = time(NULL) + 12;
  char end[32];
  assert_true(strftime(end, sizeof end, "%Y%m%d%H%M%SZ", gmtime(&soon)) > 0);
  start_server(scene,
               &(struct certificate){.name = "server", .begin = "20200101000000Z", .end = end},
               NULL, NULL);
  start_agent(scene, "localhost", NULL, NULL);
  job_expect_to_go_on(scene->job);
  assert_true(wait_until(is_past, &soon, WAIT_BOUND_MS));
  job_expect_to_go_on(scene->job);
  job_do(scene->job, "CLIENT KILL TYPE normal SKIPME yes");
  expect_refusal(scene, "the certificate of CN=server expired on ");
}

/* --- the wrong port --------------------------------------------------------------------------- */

SCENE_TEST(a_port_of_the_other_protocol_is_named) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  scene->job->url = url_of(scene, "redis", "localhost");
  job_start_agent(scene->job, NULL);
  expect_refusal(scene, "if this port speaks TLS, use rediss://, or ssl=true");
  scene->port = redis_server_port(scene->job->server);
  start_agent(scene, "localhost", NULL, NULL);
  expect_refusal(scene, "if this port does not speak TLS, use redis://, or ssl=false");
}

/* --- the flags -------------------------------------------------------------------------------- */

static void expect_exit(struct scene *self, int code, const char *why) {
  job_expect_exit(self->job, code);
  agent_process_wait_log(self->job->agent, why);
}

SCENE_TEST(a_file_that_cannot_be_used_ends_the_agent_at_once) {
  start_server(scene, &(struct certificate){.name = "server"}, NULL, NULL);
  certificates_add(scene->certificates, &(struct certificate){.name = "client"});
  const char *cert = path_of(scene, "client.pem"), *key = path_of(scene, "client.key");
  const char *own_key = path_of(scene, "server.key"), *none = path_of(scene, "none");
  scene->job->url = url_of(scene, "rediss", "localhost");
  job_start_agent(scene->job, "--cacert", none, NULL);
  expect_exit(scene, 3, job_format(scene->job, "--cacert: cannot read %s: No such file", none));
  job_start_agent(scene->job, "--cacert", key, NULL);
  expect_exit(scene, 3, "--cacert: no certificate in PEM in ");
  job_start_agent(scene->job, "--cacert", "/", NULL);
  expect_exit(scene, 3, "--cacert: / is a directory");
  assert_int_equal(mkfifo(path_of(scene, "fifo"), 0600), 0);
  job_start_agent(scene->job, "--cacert", path_of(scene, "fifo"), NULL);
  expect_exit(scene, 3, "is not a file");
  job_start_agent(scene->job, "--insecure", "--cert", none, "--key", key, NULL);
  expect_exit(scene, 3, job_format(scene->job, "--cert: cannot read %s: No such file", none));
  job_start_agent(scene->job, "--insecure", "--cert", cert, "--key", own_key, NULL);
  expect_exit(scene, 3, "is not the key of --cert");
  job_start_agent(scene->job, "--cacertdir", "/none:", NULL);
  expect_exit(scene, 3, "--cacertdir: no certificate in PEM in the files of /none:");
  job_start_agent(scene->job, "--cert", cert, NULL);
  expect_exit(scene, 64, "--cert and --key: one without the other");
}

TEST_OVERLAP(4)
