/* Each attack that a sandbox policy stops succeeds without the policy, and fails with it: as a
   plain user, as process 1 of a restricted container and below its init, and as root. */

#include "tests/support/fence_trial.h"
#include "tests/test.h"

/* The places at which an attack succeeds without a policy. */
enum {
  PLAIN = 1 << FENCE_PLAIN,
  POD = 1 << FENCE_POD,
  INIT = 1 << FENCE_INIT,
  ROOT = 1 << FENCE_ROOT,
  USERS = PLAIN | POD | INIT,
  EVERYWHERE = USERS | ROOT
};

struct row {
  const char *attack;
  unsigned succeeds;    /* without the policy; elsewhere something else stops it */
  const char *expected; /* with the policy: the words that may be answered, between bars */
};

FENCE_GROUP()

static bool is_one_of(const char *answer, const char *expected) {
  return strstr(formatted("|%s|", expected), formatted("|%s|", answer)) != NULL;
}

/* An attack on a process succeeds if it kills the agent. The kernel answers "done" to a signal that
   it does not deliver to process 1. */
static bool has_succeeded(const char *answer) {
  return is_one_of(answer, "done|killed|killed by signal 9 (SIGKILL)");
}

/* What a profile of the container's engine forbids, it forbids without a policy, too. */
static bool is_expected_without(const struct row *row, enum fence_place place, const char *answer) {
  if (fence_trial_is_here() && !has_succeeded(answer))
    return is_one_of(answer, "EPERM|ENOSYS|EACCES");
  if (is_one_of(answer, "EAFNOSUPPORT|EPROTONOSUPPORT")) /* not in this kernel */
    return true;
  return has_succeeded(answer) == ((row->succeeds & 1U << place) != 0);
}

static int check(struct fence_trial *trial, const struct row *row, const char *fence,
                 enum fence_place place) {
  struct fence_step step = {.place = place, .command = row->attack};
  struct fence_outcome without, with;
  fence_trial_run(trial, &step, &without);
  step.fence = fence;
  fence_trial_run(trial, &step, &with);
  bool passed =
      is_expected_without(row, place, without.answer) && is_one_of(with.answer, row->expected);
  if (!passed || getenv("FENCE_SHOW") != NULL)
    print_message("%s `%s`, %s, without: %s, with %s: %s (%s)\n", passed ? "ok" : "FAILED",
                  row->attack, fence_place_name(place), without.answer, fence, with.answer,
                  row->expected);
  return passed ? 0 : 1;
}

/* Reports all rows that fail. */
static void check_rows(struct fence_trial *trial, const char *fence, const struct row *rows,
                       size_t count) {
  int failed = 0;
  for (size_t i = 0; i < count; i++)
    for (int place = 0; place < FENCE_PLACES; place++)
      if (!fence_trial_is_here() || place == FENCE_INIT)
        failed += check(trial, &rows[i], fence, (enum fence_place)place);
  if (failed > 0)
    fail_msg("%d attacks failed without the policy, or had another result with it", failed);
}

#define CHECK_ROWS(FENCE, ROWS) check_rows(trial, FENCE, ROWS, sizeof(ROWS) / sizeof *(ROWS))

/* --- the agent --- */

/* The kernel delivers no such signal to process 1, but answers "done". With no_new_privs the agent
   stops some of them without a policy. The group of process 1 is -1, everybody, for which the
   kernel reports no error. */
FENCE_TEST(a_policy_stops_signals_to_the_agent) {
  static const struct row rows[] = {
      {"signal kill agent", EVERYWHERE, "EPERM"},
      {"signal ask agent", EVERYWHERE, "EPERM"},
      {"signal tkill agent", PLAIN | ROOT, "EPERM"},
      {"signal tgkill agent", PLAIN | ROOT, "EPERM"},
      {"signal pidfd agent", EVERYWHERE, "EPERM"},
      {"signal procfd agent", EVERYWHERE, "EPERM"},
      {"signal queue agent", PLAIN | ROOT, "EPERM"},
      {"signal group agent", EVERYWHERE, "EPERM|done"},
      {"signal ask supervisor", EVERYWHERE, "EPERM"},
  };
  CHECK_ROWS("{}", rows);
}

/* Whether the agent was killed says more than the answer. */
FENCE_TEST(a_policy_stops_signals_that_report_no_error) {
  static const char *const attacks[] = {"kill-all", "sigio process agent", "sigio thread agent"};
  for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
    for (int place = 0; place < FENCE_PLACES; place++) {
      if (fence_trial_is_here() && place != FENCE_INIT)
        continue;
      struct fence_step step = {.place = (enum fence_place)place, .command = attacks[i]};
      if (place != FENCE_POD && !fence_trial_is_here())
        fence_trial_expect(trial, &step, "killed");
      step.fence = "{}";
      fence_trial_expect(trial, &step, "done");
    }
}

/* With no_new_privs the agent protects itself without a policy. */
FENCE_TEST(a_policy_stops_changes_of_the_limits_and_the_scheduling_of_the_agent) {
  static const struct row rows[] = {
    {"attack prlimit", PLAIN | ROOT, "EPERM"},
    {"attack scheduler", PLAIN | ROOT, "EPERM"},
    {"attack parameter", PLAIN | ROOT, "EPERM"},
    {"attack attributes", PLAIN | ROOT, "EPERM"},
    {"attack affinity", PLAIN | ROOT, "EPERM"},
    {"attack nice", PLAIN | ROOT, "EPERM"},
    {"attack nice-group", PLAIN | ROOT, "EPERM"},
    {"attack nice-user", PLAIN | ROOT, "EPERM"},
    {"attack io", PLAIN | ROOT, "EPERM"},
    {"attack io-group", PLAIN | ROOT, "EPERM"},
    {"attack io-user", PLAIN | ROOT, "EPERM"},
    {"limit agent", PLAIN | ROOT, "EPERM"},
    {"limit-above agent", PLAIN | ROOT, "EPERM"},
    {"limit supervisor", EVERYWHERE, "EPERM"},
    {"limit-above supervisor", EVERYWHERE, "EPERM"},
#if defined(__x86_64__)
    {"attack foreign-prlimit", PLAIN | ROOT, "EPERM"},
    {"attack foreign-nice", PLAIN | ROOT, "EPERM"},
#endif
  };
  CHECK_ROWS("{}", rows);
}

/* The agent and its supervisors are not dumpable, which stops everybody except root. Newer kernels
   let CAP_SYS_ADMIN and CAP_PERFMON read the environment and the memory map of each process; the
   agent has overwritten the secrets there. */
FENCE_TEST(a_policy_stops_looks_into_the_agent) {
  static const struct row rows[] = {
      {"ptrace agent", ROOT, "EPERM"},
      {"ptrace supervisor", ROOT, "EPERM"},
      {"vm-read agent", ROOT, "EPERM"},
      {"vm-read supervisor", ROOT, "EPERM"},
      {"steal-fd agent", ROOT, "EPERM"},
      {"steal-fd supervisor", ROOT, "EPERM"},
      {"compare agent", ROOT, "EPERM"},
      {"proc-file agent mem", ROOT, "EACCES"},
      {"proc-file supervisor mem", ROOT, "EACCES"},
      {"proc-file agent environ", ROOT, "EACCES|done"},
      {"proc-file agent maps", ROOT, "EACCES|done"},
      {"proc-file agent syscall", ROOT, "EACCES|EPERM"},
      {"proc-link agent exe", ROOT, "EACCES"},
      {"proc-link agent cwd", ROOT, "EACCES"},
      {"proc-link agent fd/0", ROOT, "EACCES"},
      {"proc-file agent root/etc/passwd", ROOT, "EACCES"},
  };
  CHECK_ROWS("{}", rows);
}

FENCE_TEST(a_policy_stops_abstract_sockets_of_others) {
  static const struct row rows[] = {
      {"abstract stream $", EVERYWHERE, "EPERM"},
      {"abstract dgram $-dgram", EVERYWHERE, "EPERM"},
  };
  CHECK_ROWS("{}", rows);
}

/* --- files --- */

FENCE_TEST(write_paths_stop_changes_of_other_files) {
  static const struct row rows[] = {
      {"write @/out/file", EVERYWHERE, "EACCES"},
      {"cut @/out/file", EVERYWHERE, "EACCES"},
      {"truncate @/out/file", EVERYWHERE, "EACCES"},
      {"create @/out/new", EVERYWHERE, "EACCES"},
      {"create @/new", EVERYWHERE, "EACCES"},
      {"unnamed @/out", EVERYWHERE, "EACCES"},
      {"unlink @/out/file", EVERYWHERE, "EACCES"},
      {"mkdir @/out/new", EVERYWHERE, "EACCES"},
      {"rmdir @/out/directory", EVERYWHERE, "EACCES"},
      {"symlink @/out/new", EVERYWHERE, "EACCES"},
      {"mkfifo @/out/new", EVERYWHERE, "EACCES"},
      {"device @/out/new", ROOT, "EACCES|EPERM"},
      {"socket-file @/out/new", EVERYWHERE, "EACCES"},
      {"rename @/out/file @/out/new", EVERYWHERE, "EACCES"},
      {"rename @/in/file @/out/new", EVERYWHERE, "EACCES|EXDEV"},
      {"rename @/in/file @/out/file", EVERYWHERE, "EACCES|EXDEV"},
      {"rename @/out/file @/in/new", EVERYWHERE, "EACCES|EXDEV"},
      {"exchange @/in/file @/out/file", EVERYWHERE, "EACCES|EXDEV"},
      {"link @/out/file @/in/new", EVERYWHERE, "EXDEV"},
      {"link @/in/file @/out/new", EVERYWHERE, "EACCES|EXDEV"},
      {"rename @/in @/new", EVERYWHERE, "EACCES|EXDEV"},
      {"write @/in/link/file", EVERYWHERE, "EACCES"},
      {"create @/in/link/new", EVERYWHERE, "EACCES"},
      {"write @/in/../out/file", EVERYWHERE, "EACCES"},
      {"relative write @/out file", EVERYWHERE, "EACCES"},
      {"relative write @/in ../out/file", EVERYWHERE, "EACCES"},
      {"reopen @/out/file", EVERYWHERE, "EACCES"},
      {"write /proc/self/root@/out/file", EVERYWHERE, "EACCES"},
      {"handle write @/out/file @", ROOT, "EACCES|EPERM"},
      {"mount @/out @/in", EVERYWHERE, "EPERM"},
  };
  CHECK_ROWS("{'writePaths':['@/in']}", rows);
}

/* A step cannot make itself a smaller target of the kernel's memory killer. */
FENCE_TEST(write_paths_do_not_include_the_files_of_processes) {
  static const struct row rows[] = {
      {"write /proc/self/oom_score_adj", EVERYWHERE, "EACCES"},
      {"write /proc/self/comm", EVERYWHERE, "EACCES"},
      {"write /proc/self/timerslack_ns", EVERYWHERE, "EACCES"},
      {"write /proc/sys/kernel/hostname", ROOT, "EACCES"},
      {"create /dev/shm/$", EVERYWHERE, "EACCES"},
  };
  CHECK_ROWS("{'writePaths':['@/in']}", rows);
}

FENCE_TEST(empty_write_paths_stop_every_change) {
  static const struct row rows[] = {
      {"write @/in/file", EVERYWHERE, "EACCES"},
      {"create @/new", EVERYWHERE, "EACCES"},
      {"unnamed @", EVERYWHERE, "EACCES"},
  };
  CHECK_ROWS("{'writePaths':[]}", rows);
}

#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#else
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif
#define PROGRAMS "'/usr','/bin','/lib','/lib64','/etc','@/in'"

FENCE_TEST(read_paths_stop_reading_and_executing_other_files) {
  static const struct row rows[] = {
      {"read @/out/file", EVERYWHERE, "EACCES"},
      {"read @/in/link/file", EVERYWHERE, "EACCES"},
      {"relative read @/out file", EVERYWHERE, "EACCES"},
      {"list @/out", EVERYWHERE, "EACCES"},
      {"list /", EVERYWHERE, "EACCES"},
      {"list /tmp", EVERYWHERE, "EACCES"},
      {"list /proc", EVERYWHERE, "EACCES"},
      {"read /proc/self/status", EVERYWHERE, "EACCES"},
      {"read /proc/self/environ", EVERYWHERE, "EACCES"},
      {"exec @/out/program exit 42", EVERYWHERE, "EACCES"},
      {"exec @/in/link/program exit 42", EVERYWHERE, "EACCES"},
      {"load " LOADER " @/out/program exit 42", EVERYWHERE, "EACCES"},
      {"handle read @/out/file @/in", ROOT, "EACCES|EPERM"},
      {"mount @/out @/in", EVERYWHERE, "EPERM"},
      {"link @/out/file @/in/new", EVERYWHERE, "EXDEV"},
  };
  CHECK_ROWS("{'readPaths':[" PROGRAMS ",'!']}", rows);
}

/* The manual says that these pass. */
FENCE_TEST(path_rules_do_not_stop_changes_of_attributes) {
  static const struct row rows[] = {{"stat @/out/file", EVERYWHERE, "done"}};
  CHECK_ROWS("{'readPaths':[" PROGRAMS ",'!'],'writePaths':['@/in']}", rows);
  for (int place = 0; place < FENCE_PLACES; place++) {
    bool owns_it = place == FENCE_ROOT || fence_trial_is_here(); /* the test has made the file */
    fence_trial_expect(trial,
                       &(struct fence_step){.place = (enum fence_place)place,
                                            .command = "chmod @/out/file",
                                            .fence = "{'writePaths':['@/in']}"},
                       owns_it ? "done" : "EPERM");
  }
}

/* --- the network --- */

#define REDIS(HOW, PROTOCOL) "redis " HOW " 127.0.0.1 # inet stream " PROTOCOL

/* Other families, as a kernel has them. */
FENCE_TEST(network_none_leaves_only_unix_and_netlink_sockets) {
  static const struct row rows[] = {
    {"socket inet stream 0", EVERYWHERE, "EACCES"},
    {"socket inet6 stream 0", EVERYWHERE, "EACCES"},
    {"socket inet stream-flags tcp", EVERYWHERE, "EACCES"},
    {"socket inet stream mptcp", EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {"socket inet dgram 0", EVERYWHERE, "EACCES"},
    {"socket inet6 dgram udp", EVERYWHERE, "EACCES"},
    {"socket inet dgram udplite", EVERYWHERE, "EACCES"},
    {"socket inet dgram icmp", EVERYWHERE, "EACCES"},
    {"socket inet6 dgram icmp6", EVERYWHERE, "EACCES"},
    {"socket inet raw icmp", ROOT, "EACCES|EPERM"},
    {"socket packet raw 0", ROOT, "EACCES|EPERM"},
    {"socket vsock stream 0", EVERYWHERE, "EACCES"},
    {"socket inet-above stream 0", EVERYWHERE, "EACCES"},
    {"socket inet stream-above mptcp-above", EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {"allow-all inet stream 0", EVERYWHERE, "EACCES"},
    {REDIS("connect", "0"), EVERYWHERE, "EACCES"},
    {REDIS("sendto", "0"), EVERYWHERE, "EACCES"},
    {"io-uring", EVERYWHERE, "ENOSYS"},
#if defined(__x86_64__)
    {"foreign getpid", EVERYWHERE, "ENOSYS"},
    {"foreign socketcall", EVERYWHERE, "ENOSYS"},
    {"foreign socket", EVERYWHERE, "ENOSYS"},
    {"foreign limit", PLAIN | ROOT, "ENOSYS|EPERM"},
    {"x32", 0, "ENOSYS"},
#endif
    {"socket unix stream 0", EVERYWHERE, "done"},
    {"socket unix-above stream 0", EVERYWHERE, "done"},
    {"socket netlink raw 0", EVERYWHERE, "done"},
  };
  CHECK_ROWS("{'network':'none'}", rows);
}

FENCE_TEST(network_ports_stops_connections_to_other_ports) {
  static const struct row rows[] = {
    {REDIS("connect", "0"), EVERYWHERE, "EACCES"},
    {REDIS("connect", "mptcp"), EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {REDIS("connect", "mptcp-above"), EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {"redis connect ::ffff:127.0.0.1 # inet6 stream 0", EVERYWHERE, "EACCES"},
    {"redis connect ::ffff:127.0.0.1 # inet6 stream mptcp", EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {REDIS("sendto", "0"), EVERYWHERE, "EACCES|EOPNOTSUPP"},
    {REDIS("sendto-above", "0"), EVERYWHERE, "EACCES|EOPNOTSUPP"},
    {REDIS("sendmsg", "0"), EVERYWHERE, "EACCES|EOPNOTSUPP"},
    {REDIS("sendmmsg", "0"), EVERYWHERE, "EACCES|EOPNOTSUPP"},
    {REDIS("option", "0"), EVERYWHERE, "EACCES"},
    {"redis sendto ::ffff:127.0.0.1 # inet6 stream 0", EVERYWHERE, "EACCES|EOPNOTSUPP"},
    {"bind 127.0.0.1 0", EVERYWHERE, "EACCES"},
    {"bind ::1 0", EVERYWHERE, "EACCES"},
    {"bind 0.0.0.0 23456", EVERYWHERE, "EACCES"},
    {"socket inet raw icmp", ROOT, "EACCES|EPERM"},
    {"socket inet dgram icmp", EVERYWHERE, "EACCES"},
    {"socket inet6 dgram icmp6", EVERYWHERE, "EACCES"},
    {"socket packet raw 0", ROOT, "EACCES|EPERM"},
    {"socket vsock stream 0", EVERYWHERE, "EACCES"},
    {"io-uring", EVERYWHERE, "ENOSYS"},
#if defined(__x86_64__)
    {"foreign socketcall", EVERYWHERE, "ENOSYS"},
    {"foreign socket", EVERYWHERE, "ENOSYS"},
#endif
    {"send 127.0.0.1 9", EVERYWHERE, "done"},
  };
  CHECK_ROWS("{'network':'ports','tcpConnect':[1]}", rows);
}

FENCE_TEST(network_ports_allows_the_ports_of_its_lists) {
  static const struct row rows[] = {
      {REDIS("connect", "0"), EVERYWHERE, "done"},
      {"redis connect ::ffff:127.0.0.1 # inet6 stream 0", EVERYWHERE, "done"},
      {REDIS("sendto", "0"), EVERYWHERE, "EACCES|EOPNOTSUPP"},
      {"bind 127.0.0.1 23456", EVERYWHERE, "done"},
      {"bind 127.0.0.1 23457", EVERYWHERE, "EACCES"},
      {"bind 127.0.0.1 0", EVERYWHERE, "done"},
  };
  CHECK_ROWS("{'network':'ports','tcpConnect':[#],'tcpBind':[0,23456]}", rows);
}

FENCE_TEST(network_loopback_leaves_only_tcp_over_the_loopback_interface) {
  static const struct row rows[] = {
    {"socket inet stream mptcp", EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {"socket inet stream mptcp-above", EVERYWHERE, "EACCES|EPROTONOSUPPORT"},
    {"socket inet dgram 0", EVERYWHERE, "EACCES"},
    {"socket inet dgram-flags 0", EVERYWHERE, "EACCES"},
    {"socket inet dgram-above 0", EVERYWHERE, "EACCES"},
    {"socket inet6 stream 0", EVERYWHERE, "EAFNOSUPPORT"},
    {"socket inet6 dgram 0", EVERYWHERE, "EAFNOSUPPORT"},
    {"socket inet dgram icmp", EVERYWHERE, "EACCES"},
    {"socket inet raw icmp", ROOT, "EACCES|EPERM"},
    {"socket packet raw 0", ROOT, "EACCES|EPERM"},
    {"socket vsock stream 0", EVERYWHERE, "EACCES"},
    {"unbind name", EVERYWHERE, "EPERM|EACCES"},
    {"unbind index", EVERYWHERE, "EPERM|EACCES"},
    {"unbind above", EVERYWHERE, "EPERM|EACCES"},
    {"io-uring", EVERYWHERE, "ENOSYS"},
#if defined(__x86_64__)
    {"foreign socketcall", EVERYWHERE, "ENOSYS"},
    {"foreign socket", EVERYWHERE, "ENOSYS"},
#endif
    {REDIS("connect", "0"), EVERYWHERE, "done"},
    {REDIS("sendto", "0"), EVERYWHERE, "done|EACCES"},
    {"socket inet-above stream-above 0", EVERYWHERE, "done"},
    {"allow-all inet stream 0", EVERYWHERE, "done"},
    {"talk 127.0.0.1 127.0.0.1", EVERYWHERE, "done"},
    {"talk 0.0.0.0 127.0.0.1", EVERYWHERE, "done"},
    {"flags", EVERYWHERE, "done"},
    {"no-descriptor", EVERYWHERE, "done"},
    {"many-sockets", EVERYWHERE, "done"},
    {"killed-callers", EVERYWHERE, "done"},
    {"orphan-socket", EVERYWHERE, "done"},
  };
  CHECK_ROWS("{'network':'loopback'}", rows);
}

/* --- what remains allowed, and refusals --- */

#define STRICTEST "{'writePaths':['@/in'],'readPaths':[" PROGRAMS ",'/proc','!'],'network':'none'}"

FENCE_TEST(a_step_with_a_policy_may_do_its_own_work) {
  static const struct row rows[] = {
      {"own-child", EVERYWHERE, "done"},
      {"own-limits", EVERYWHERE, "done"},
      {"own-abstract $-own", EVERYWHERE, "done"},
      {"terminal", EVERYWHERE, "done"},
      {"write /dev/null", EVERYWHERE, "done"},
      {"read /dev/urandom", EVERYWHERE, "done"},
      {"write @/in/file", EVERYWHERE, "done"},
      {"create @/in/new", EVERYWHERE, "done"},
      {"unnamed @/in", EVERYWHERE, "done"},
      {"truncate @/in/file", EVERYWHERE, "done"},
      {"rename @/in/file @/in/directory/new", EVERYWHERE, "done"},
      {"exchange @/in/file @/in/other", EVERYWHERE, "done"},
      {"link @/in/file @/in/directory/new", EVERYWHERE, "done"},
      {"symlink @/in/new", EVERYWHERE, "done"},
      {"mkfifo @/in/new", EVERYWHERE, "done"},
      {"socket-file @/in/new", EVERYWHERE, "done"},
      {"rmdir @/in/directory", EVERYWHERE, "done"},
      {"exec @/in/program exit 42", EVERYWHERE, "done"},
  };
  CHECK_ROWS(STRICTEST, rows);
}

static void expect_refused(struct fence_trial *trial, const char *fence, const char *message) {
  struct fence_outcome outcome;
  fence_trial_run(trial,
                  &(struct fence_step){.script = "echo ran >in/new; echo done", .fence = fence},
                  &outcome);
  const char *expected = fence_trial_text(trial, message);
  if (strstr(outcome.answer, expected) == NULL)
    fail_msg("%s: %s, not %s", fence, outcome.answer, expected);
  assert_int_equal(access(fence_trial_text(trial, "@/in/new"), F_OK), -1);
  const cJSON *result = cJSON_GetArrayItem(outcome.events, cJSON_GetArraySize(outcome.events) - 1);
  assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(result, "exitCode")), -1);
  const char *cause =
      cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(result, "end"), "cause"));
  assert_string_equal(cause == NULL ? "(none)" : cause, "refused");
}

FENCE_TEST(a_write_path_through_a_symbolic_link_is_refused) {
  expect_refused(trial, "{'writePaths':['@/in/link']}",
                 "fence.writePaths[0] @/in/link: a symbolic");
  expect_refused(trial, "{'writePaths':['@/out','@/in/link/directory']}",
                 "fence.writePaths[1] @/in/link/directory: a symbolic");
  expect_refused(trial, "{'writePaths':['@/none']}", "fence.writePaths[0] @/none: No such file");
  expect_refused(trial, "{'writePaths':['@/in/file/x']}", "fence.writePaths[0] @/in/file/x: Not a");
}

/* A relative path counts from the working directory. */
FENCE_TEST(relative_paths_are_those_of_the_working_directory) {
  struct fence_step step = {.json = "{'command':'touch','args':['@/in/new'],"
                                    "'workingDirectory':'@','fence':{'writePaths':['in']}}"};
  fence_trial_expect(trial, &step, "");
  step.json = "{'command':'sh','args':['-c','touch @/out/new 2>/dev/null || echo denied'],"
              "'workingDirectory':'@','fence':{'writePaths':['in']}}";
  fence_trial_expect(trial, &step, "denied");
  step.json = "{'command':'touch','args':['@/out/new'],'workingDirectory':'@',"
              "'fence':{'writePaths':['in/../out']}}";
  fence_trial_expect(trial, &step, "");
}

/* A file as a path is that file only. */
FENCE_TEST(a_path_may_be_a_file) {
  struct fence_step step = {.command = "write @/out/file",
                            .fence = "{'writePaths':['@/out/file']}"};
  fence_trial_expect(trial, &step, "done");
  step.command = "write @/out/other";
  fence_trial_expect(trial, &step, "EACCES");
}

/* A step can narrow the policy of the agent, and cannot widen it. */
FENCE_TEST(a_step_cannot_loosen_the_policy_of_the_agent) {
  static const struct {
    const char *command, *agent, *step, *expected;
  } rows[] = {
      {"write @/out/file", "{'writePaths':['@/in']}", NULL, "EACCES"},
      {"write @/in/file", "{'writePaths':['@/in']}", NULL, "done"},
      {"write @/out/file", "{'writePaths':['@/in']}", "{'writePaths':['@']}", "EACCES"},
      {"write @/out/file", "{'writePaths':['@/in']}", "{}", "EACCES"},
      {"write @/in/file", "{'writePaths':['@/in']}", "{'writePaths':['@/out']}", "EACCES"},
      {"read @/out/file", "{'readPaths':[" PROGRAMS ",'!']}", "{'readPaths':['/']}", "EACCES"},
      {"socket inet stream 0", "{'network':'none'}", NULL, "EACCES"},
      {"socket inet stream 0", "{'network':'none'}", "{'network':'all'}", "EACCES"},
      {"socket inet stream 0", "{'network':'none'}", "{'network':'loopback'}", "EACCES"},
      {"socket inet dgram 0", "{'network':'loopback'}", "{'network':'ports'}", "EACCES"},
      {REDIS("connect", "0"), "{'network':'ports','tcpConnect':[1]}",
       "{'network':'ports','tcpConnect':[#]}", "EACCES"},
      {REDIS("connect", "0"), "{'network':'ports','tcpConnect':[1]}", "{'network':'loopback'}",
       "EACCES"},
      {REDIS("connect", "0"), "{'network':'ports','tcpConnect':[#]}", "{'network':'loopback'}",
       "done"},
      {REDIS("connect", "0"), "{'network':'loopback'}", NULL, "done"},
      {"signal kill agent", "{}", NULL, "EPERM"},
      {"signal kill agent", "{'network':'all'}", "{'writePaths':['@/in']}", "EPERM"},
  };
  int failed = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int place = 0; place < FENCE_PLACES; place++) {
      if (fence_trial_is_here() && place != FENCE_INIT)
        continue;
      struct fence_outcome outcome;
      fence_trial_run(trial,
                      &(struct fence_step){.place = (enum fence_place)place,
                                           .command = rows[i].command,
                                           .fence = rows[i].step,
                                           .agent_fence = rows[i].agent},
                      &outcome);
      if (strcmp(outcome.answer, rows[i].expected) != 0) {
        print_message("`%s`, %s, --fence %s, step %s: %s, not %s\n", rows[i].command,
                      fence_place_name((enum fence_place)place), rows[i].agent,
                      rows[i].step == NULL ? "(none)" : rows[i].step, outcome.answer,
                      rows[i].expected);
        failed++;
      }
    }
  assert_int_equal(failed, 0);
}

TEST_OVERLAP(4)
