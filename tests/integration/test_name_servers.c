/* Redis is named by a host name: name servers that are dead, that know only one address family, or
   that give short answers. */

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/support/directory.h"
#include "tests/support/job.h"

enum { SERVERS = 2, PORT = 53, TYPE_A = 1, TYPE_AAAA = 28, TRUNCATED = 0x02, NO_NAME = 3 };

enum manner {
  DEAD,       /* never answers */
  WHOLE,      /* 127.0.0.1, and no IPv6 address */
  DEAF_TO_V6, /* the same, but queries for IPv6 addresses get no answer */
  CUT_SHORT,  /* the address does not fit into the answer */
  UNKNOWN     /* replies that the name does not exist */
};

struct name_servers {
  pid_t pid; /* the process of all name servers */
  struct directory directory;
  char addresses[SERVERS][INET_ADDRSTRLEN];
  const char *resolv_conf;
};

/* Overwrites the query in `packet` with an answer; returns 0 if there is none. */
static size_t answer(enum manner manner, unsigned char *packet, size_t length) {
  static const unsigned char record[] = {0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, 9, 0, 4, 127, 0, 0, 1};
  unsigned type = packet[length - 3];
  if (manner == DEAD || (manner == DEAF_TO_V6 && type == TYPE_AAAA))
    return 0;
  bool has_record = type == TYPE_A && (manner == WHOLE || manner == DEAF_TO_V6);
  packet[2] = 0x81 | (manner == CUT_SHORT && type == TYPE_A ? TRUNCATED : 0);
  packet[3] = 0x80 | (manner == UNKNOWN ? NO_NAME : 0);
  packet[7] = has_record;
  packet[11] = 0;
  if (!has_record)
    return length;
  memcpy(packet + length, record, sizeof record);
  return length + sizeof record;
}

static _Noreturn void serve(const struct pollfd *sockets, const enum manner *manners) {
  struct pollfd polled[SERVERS];
  memcpy(polled, sockets, sizeof polled);
  while (poll(polled, SERVERS, -1) > 0) {
    for (size_t i = 0; i < SERVERS; i++) {
      unsigned char packet[512];
      struct sockaddr_in from;
      socklen_t from_length = sizeof from;
      if ((polled[i].revents & POLLIN) == 0)
        continue;
      ssize_t length = recvfrom(polled[i].fd, packet, sizeof packet / 2, 0,
                                (struct sockaddr *)&from, &from_length);
      size_t reply = length < 17 ? 0 : answer(manners[i], packet, (size_t)length);
      if (reply > 0)
        (void)sendto(polled[i].fd, packet, reply, 0, (struct sockaddr *)&from, from_length);
    }
  }
  _exit(1);
}

/* Starts name servers at loopback addresses that only this test uses. */
static void name_servers_start(struct name_servers *self, const enum manner manners[SERVERS]) {
  struct pollfd sockets[SERVERS];
  directory_init(&self->directory);
  self->resolv_conf = directory_path(&self->directory, "resolv.conf");
  FILE *file = fopen(self->resolv_conf, "we");
  assert_non_null(file);
  for (size_t i = 0; i < SERVERS; i++) {
    uint32_t number = 0x7f000000 | ((uint32_t)getpid() << 2 & 0x00fffffc) | (uint32_t)(i + 1);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(number)};
    inet_ntop(AF_INET, &address.sin_addr, self->addresses[i], INET_ADDRSTRLEN);
    fprintf(file, "nameserver %s\n", self->addresses[i]);
    sockets[i] =
        (struct pollfd){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), .events = POLLIN};
    assert_int_equal(bind(sockets[i].fd, (struct sockaddr *)&address, sizeof address), 0);
  }
  fclose(file);
  self->pid = fork();
  if (self->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(sockets, manners);
  }
  for (size_t i = 0; i < SERVERS; i++)
    close(sockets[i].fd);
}

static void name_servers_stop(struct name_servers *self) {
  kill(self->pid, SIGKILL);
  waitpid(self->pid, NULL, 0);
  directory_release(&self->directory);
}

static void use_resolv_conf(const void *path) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) != 0)
    _exit(99);
}

static void start_by_name(struct job *job, struct name_servers *servers, enum manner first,
                          enum manner second) {
  name_servers_start(servers, (const enum manner[]){first, second});
  job->setup.prepare = use_resolv_conf;
  job->setup.prepare_context = servers->resolv_conf;
  job->url = job_format(job, "redis://%sredis.example:%d", redis_server_login(),
                        redis_server_port(job->server));
  job_start_agent(job, NULL);
}

/* Also after a lost connection. */
JOB_TEST_NO_AGENT(the_agent_uses_the_first_name_server_that_answers) {
  static const enum manner rows[][SERVERS] = {{WHOLE, WHOLE}, {DEAD, WHOLE}, {DEAD, DEAF_TO_V6}};
  size_t count = agent_process_is_shipped() ? sizeof rows / sizeof *rows : 1;
  for (size_t i = 0; i < count; i++) {
    struct name_servers servers;
    start_by_name(job, &servers, rows[i][0], rows[i][1]);
    job_expect_to_go_on(job);
    job_do(job, "CLIENT KILL TYPE normal SKIPME yes");
    job_expect_to_go_on(job);
    job_shut_down(job);
    name_servers_stop(&servers);
  }
}

/* The shipped program has the resolver of musl. The resolver of glibc asks the servers one by one.
   */
#define MUSL_TEST(NAME)                                                                            \
  TEST_WITH_IF(agent_process_is_shipped(), struct job *job, NAME, job_setup_server, job_teardown)

MUSL_TEST(the_log_names_name_servers_that_do_not_answer) {
  struct name_servers servers;
  start_by_name(job, &servers, DEAD, DEAD);
  agent_process_wait_log(job->agent,
                         job_format(job, "no answer from a name server of /etc/resolv.conf: %s, %s",
                                    servers.addresses[0], servers.addresses[1]));
  name_servers_stop(&servers);
}

static void use_hosts(const void *path) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount(path, "/etc/hosts", NULL, MS_BIND, NULL) != 0)
    _exit(99);
}

/* The option --add-host of a container adds such a line. */
JOB_TEST_NO_AGENT(the_hosts_file_resolves_a_name_with_a_final_dot) {
  job->setup.prepare = use_hosts;
  job->setup.prepare_context = job_write(job, "hosts", "127.0.0.1 localhost redis.local\n", 0644);
  job->url = job_format(job, "redis://%sredis.local.:%d", redis_server_login(),
                        redis_server_port(job->server));
  job_start_agent(job, NULL);
  job_expect_to_go_on(job);
}

MUSL_TEST(the_log_explains_a_name_that_cannot_be_resolved) {
  static const struct {
    enum manner manner;
    const char *word;
  } rows[] = {{UNKNOWN, "Name does not resolve"}, {CUT_SHORT, "the answer does not fit"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct name_servers servers;
    start_by_name(job, &servers, DEAD, rows[i].manner);
    agent_process_wait_log(job->agent,
                           job_format(job, "cannot resolve the name: %s", rows[i].word));
    assert_null(strstr(agent_process_log(job->agent), "no answer"));
    job_stop_agent(job, SIGTERM);
    name_servers_stop(&servers);
  }
}

TEST_OVERLAP(3)
