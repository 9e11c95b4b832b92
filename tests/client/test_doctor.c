/* sandbox doctor: findings and fixes. */
#include <arpa/inet.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

/* A line of the output has this beginning and this fix. */
static void expect_finding(struct job *job, const char *command, int code, const char *beginning,
                           const char *fix) {
  struct agent_process *client = sandbox_start(job, command);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), code);
  const char *line = strstr(agent_process_output(client), beginning);
  if (line == NULL)
    job_fail(job, "no '%s' in\n%s", beginning, agent_process_output(client));
  const char *end = strchr(line, '\n'), *found = strstr(line, fix);
  if (found == NULL || found > end)
    job_fail(job, "no '%s' in\n%s", fix, agent_process_output(client));
  assert_null(strstr(agent_process_output(client), "s3cret"));
  agent_process_free(client);
}

/* What a policy can do depends on the kernel. */
JOB_TEST(a_healthy_job_has_no_findings) {
  sandbox_expect(job, "$S doctor | sed '/Landlock/d; /^1 warning$/d' | cut -c1-3 | sort -u", 0,
                 "✓\n", "");
  sandbox_expect(job,
                 "$S doctor --json | grep -v Landlock | "
                 "grep -v '^{\"level\":\"ok\",\"text\":\".*\",\"fix\":null}$'",
                 1, "", "");
  expect_finding(job, "$S doctor", 0, "✓ agent ", "; its clock is 0.");
}

/* Sets a heartbeat whose value is this much older than the key. */
static void set_heartbeat(struct job *job, int age_ms) {
  job_do(job, "EVAL %s 1 sandbox:%s:heartbeat %d",
         "local now = redis.call('TIME') "
         "local ms = now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[1] "
         "redis.call('SET', KEYS[1], string.format('{\"Ts\":%.0f,\"Pid\":1}', ms), 'EX', 10)",
         job->id, age_ms);
}

/* An agent makes the value up to 2 s before Redis sets the key. */
JOB_TEST_NO_AGENT(only_the_clock_of_an_older_heartbeat_is_a_finding) {
  set_heartbeat(job, 2000);
  expect_finding(job, "$S doctor", 0, "✓ agent ", "; its clock is 0.0s");
  set_heartbeat(job, 8500);
  expect_finding(job, "$S doctor", 0, "! agent ", "; its clock is 6.");
  set_heartbeat(job, -4300);
  expect_finding(job, "$S doctor", 0, "! agent ", "; its clock is 4.");
}

JOB_TEST(missing_rights_are_named) {
  job_do(job, "ACL SETUSER narrow on >s3cret ~sandbox:* +get +llen +lpush +lrem +expire +xread "
              "+acl|dryrun");
  const char *command = "$S -u redis://narrow:s3cret@127.0.0.1:${REDIS_URL##*:} doctor";
  expect_finding(job, command, 1, "✗ ACL: the user may not use LINDEX, DEL, LRANGE, XREVRANGE",
                 "→ ACL SETUSER narrow +lindex +del +lrange +xrevrange");
  job_do(job, "ACL SETUSER narrow -acl");
  expect_finding(job, command, 1, "✗ ACL: the user may not use LINDEX, DEL, LRANGE, XREVRANGE",
                 "→ ACL SETUSER narrow +lindex +del +lrange +xrevrange");
  job_do(job, "ACL SETUSER narrow resetkeys ~other:* +@all");
  expect_finding(job, command, 1, "✗ ACL: the user may not use the job's keys",
                 "→ ACL SETUSER narrow ~sandbox:");
}

/* Without ACL DRYRUN, as before Redis 7, commands are tried in a way that changes nothing. */
JOB_TEST_NO_AGENT(missing_rights_are_named_without_dry_runs) {
  static const struct {
    const char *right, *finding, *fix;
  } rights[] = {{"get", "✗ ACL: the user may not use GET", "+get"},
                {"llen", "✗ ACL: the user may not use LLEN", "+llen"},
                {"type", "! some checks were skipped", "+type"},
                {"multi", "! ACL: as an agent's, the user narrow may not use MULTI", "+multi"},
                {"blmove", "! ACL: as an agent's, the user narrow may not use BLMOVE", "+blmove"}};
  const char *command = "$S -u redis://narrow:s3cret@127.0.0.1:${REDIS_URL##*:} doctor";
  job_push_json(job, "{'stepId':'1','command':'true'}");
  for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
    job_do(job, "ACL SETUSER narrow reset on >s3cret ~sandbox:* +@all -acl -%s", rights[i].right);
    expect_finding(job, command, 1, rights[i].finding, rights[i].fix);
  }
  job_wait_length(job, "in", 1);
  job_wait_length(job, "inflight", 0);
}

/* --- no connection ---------------------------------------------------------------------------- */

/* The flags may use $PORT. */
static void expect_connection_error(struct job *job, const char *flags, int port,
                                    const char *beginning, const char *fix) {
  const char *command = job_format(job, "PORT=%d; $S %s doctor", port, flags);
  expect_finding(job, command, 1, beginning, fix);
}

JOB_TEST_NO_AGENT(a_redis_that_does_not_run_is_a_finding) {
  expect_connection_error(job, "-u redis://127.0.0.1:$PORT", 1, "✗ cannot connect to 127.0.0.1:1",
                          "→ start redis-server");
  expect_connection_error(job, "-u unix:///nowhere/$PORT", 1, "✗ cannot connect to /nowhere/1",
                          "→ start redis-server");
  /* A label of more than 63 bytes is not sent to a name server. */
  expect_connection_error(job, "-u redis://$(printf %064d 0).invalid:$PORT", 1,
                          "✗ cannot connect to 000", "→ -u another host");
}

JOB_TEST_NO_AGENT(a_wrong_password_is_a_finding) {
  const int port = redis_server_port(job->server);
  expect_connection_error(job, "-u redis://u:s3cret@127.0.0.1:$PORT", port, "✗ redis at",
                          "→ -u redis://USER:PASSWORD@…, or ACL SETUSER");
  expect_connection_error(job, "-u redis://:s3cret@127.0.0.1:$PORT", port, "✗ redis at",
                          "→ -u without a password");
  job_do(job, "CONFIG SET requirepass s3cret");
  expect_connection_error(job, "-u redis://127.0.0.1:$PORT", port, "✗ redis at",
                          "→ -u redis://USER:PASSWORD@…");
}

/* Answers each connection with this text. Returns the pid of the server, and sets its port. */
static pid_t start_greeter(const char *text, int *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(listener, 8), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  *port = ntohs(address.sin_port);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0) {
    close(listener);
    return pid;
  }
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
  }
}

static void expect_greeting_error(struct job *job, const char *text, const char *beginning,
                                  const char *fix) {
  int port;
  pid_t pid = start_greeter(text, &port);
  expect_connection_error(job, "-u redis://127.0.0.1:$PORT", port, beginning, fix);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

JOB_TEST_NO_AGENT(a_server_other_than_redis_is_a_finding) {
  expect_greeting_error(job, "HTTP/1.1 400 Bad Request\r\n\r\n", "✗ cannot connect to",
                        "→ -u another URL: this is not Redis");
  expect_greeting_error(job, "*1\r\n$1\r\nx\r\n", "✗ cannot connect to",
                        "→ -u another URL: this is not Redis");
  expect_greeting_error(job, "", "✗ no answer from", "→ -u rediss://…, if the port speaks TLS");
  expect_greeting_error(job, "-LOADING Redis is loading\r\n", "✗ cannot connect to",
                        "→ wait until Redis has loaded its data");
}

JOB_TEST_NO_AGENT(tls_errors_are_findings) {
  struct certificates *certificates = certificates_new();
  certificates_add_authority(certificates, "ca");
  certificates_add_authority(certificates, "other");
  certificates_add(certificates, &(struct certificate){.name = "server",
                                                       .names = "IP:127.0.0.1,DNS:redis.example"});
  struct redis_server *server = redis_server_start_tls(certificates, NULL);
  const int port = redis_server_tls_port(server);
  setenv("CA", certificates_path(certificates, "ca.pem"), 1);
  setenv("OTHER", certificates_path(certificates, "other.pem"), 1);
  expect_finding(job, job_format(job, "$S --cacert $CA -u rediss://127.0.0.1:%d doctor", port), 0,
                 "✓ TLS: the server's certificate is valid", "");
  expect_connection_error(job, "--cacert $OTHER -u rediss://127.0.0.1:$PORT", port,
                          "✗ cannot connect to", "→ --cacert FILE");
  expect_connection_error(job, "--cacert $CA --sni other.example -u rediss://127.0.0.1:$PORT", port,
                          "✗ cannot connect to", "→ --sni NAME");
  expect_connection_error(job, "-u redis://127.0.0.1:$PORT", port, "✗ cannot connect to",
                          "→ -u rediss://…");
  /* Redis waits for the end of a line, unless the first bytes of the handshake have one. */
  expect_connection_error(job, "--cacert $CA -u rediss://127.0.0.1:$PORT",
                          redis_server_port(server), "✗ ", "→ -u redis://…, ");
  redis_server_stop(server);
  certificates_free(certificates);
}

/* --- the job ---------------------------------------------------------------------------------- */

JOB_TEST_NO_AGENT(steps_without_an_agent_are_a_finding) {
  const char *in = job_format(job, "sandbox:%s:inflight", job->id);
  expect_finding(job, "$S doctor", 0, "! no agent: no heartbeat, and no step waits", "→ agent ");
  job_do(job, "LPUSH %s %s", in, "{}");
  job_do(job, "SET %s %s", job_format(job, "sandbox:%s:started", job->id), "x");
  expect_finding(job, "$S doctor", 1, "✗ no agent: no heartbeat, and 1 step was taken and not",
                 "answered; the next agent will answer it as interrupted   → agent ");
  job_do(job, "SET sandbox:%s:committed x", job->id);
  expect_finding(job, "$S doctor", 1, "✗ no agent: no heartbeat, and 1 step was taken and not",
                 "→ recreate its pod (kubectl logs POD says why it ended), or agent ");
}

/* An agent exits because of it. */
JOB_TEST_NO_AGENT(a_key_of_a_wrong_type_is_a_finding) {
  job_do(job, "SET %s x", job_format(job, "sandbox:%s:results", job->id));
  expect_finding(job, "$S doctor", 1, job_format(job, "✗ sandbox:%s:results is a string", job->id),
                 "→ DEL sandbox:");
}

JOB_TEST(results_that_no_server_reads_are_a_warning) {
  job_do(job, "EVAL %s 0",
         job_format(job,
                    "for i=1,1204 do redis.call('lpush','sandbox:%s:results','x') end "
                    "for i=1,9950 do redis.call('xadd','sandbox:%s:events','*','data','{}') end",
                    job->id, job->id));
  expect_finding(job, "$S doctor", 0, "! 1,204 results wait", "→ LRANGE");
  expect_finding(job, "$S doctor", 0, "! events: 9,950 of 10,000, oldest ",
                 "→ agent --events-maxlen");
}

JOB_TEST(eviction_is_a_finding) {
  job_do(job, "CONFIG SET maxmemory-policy volatile-lru");
  expect_finding(job, "$S doctor", 0, "! maxmemory-policy volatile-lru",
                 "→ CONFIG SET maxmemory-policy noeviction");
  job_do(job, "CONFIG SET maxmemory 1gb");
  expect_finding(job, "$S doctor", 1, "✗ maxmemory-policy volatile-lru",
                 "→ CONFIG SET maxmemory-policy noeviction");
}

JOB_TEST_NO_AGENT(without_a_job_only_redis_is_checked) {
  expect_finding(job, "env -u JOB_ID $S doctor", 0, "! no job was checked", "→ sandbox -j JOB");
}

/* A person may paste the fix, and anyone who can write to Redis may have chosen the name. */
JOB_TEST_NO_AGENT(a_job_whose_name_is_a_command_is_quoted) {
  expect_finding(job, "$S -j \"a\\$(b)'c\" doctor", 0, "! no agent: no heartbeat",
                 "agent --redis-url URL --job-id 'a$(b)'\\''c'\n");
  job_do(job, "SET %s x", "sandbox:a$b:results");
  expect_finding(job, "$S -j 'a$b' doctor", 1, "✗ sandbox:a$b:results is a string",
                 "DEL 'sandbox:a$b:results', or RENAME it to keep the value");
}
