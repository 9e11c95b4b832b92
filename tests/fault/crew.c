#include "tests/fault/crew.h"

#include <ftw.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/support/proc.h"
#include "tests/test.h"

/* Longer than every bound inside a trial. */
#define TRIAL_BOUND_MS 600000

/* How many directories of one family's trials are kept. */
#define KEPT_MAX 5

/* After this many successive trials without a cut, the byte is after the end of the traffic. The
   length of the traffic differs a little between trials. Fewer trials are enough if their bytes are
   farther apart, but more than one. */
#define UNCUT_MAX 24
#define UNCUT_BYTES 750
#define UNCUT_MIN 3

/* The trials of one crew_run, and their results so far. */
struct campaign {
  const struct family *family;
  bool over_tls;
  bool single; /* only one trial */
  enum relay_role role;
  long number; /* of the next trial */
  long stride;
  long trials; /* to begin; LONG_MAX: no limit */
  long cuts;   /* end after this many cuts; 0: no limit */
  long uncut;  /* successive trials without a cut, with this role */
  long runs;
  long kept;
  int64_t begin_ms;
  struct tally sum;
};

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  (void)kind;
  (void)walk;
  remove(path);
  return 0;
}

static void remove_directory(const char *path) {
  nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void block_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(how, &set, NULL);
}

void crew_init(struct crew *self, int places, long seed) {
  *self = (struct crew){.count = places < CREW_PLACES_MAX ? places : CREW_PLACES_MAX, .seed = seed};
  const char *temporary = getenv("TMPDIR");
  snprintf(self->directory, sizeof self->directory, "%s/fault-XXXXXX",
           temporary == NULL || *temporary == '\0' ? "/tmp" : temporary);
  assert_non_null(mkdtemp(self->directory));
  /* So that the files of a trial's servers are in the trial's directory. */
  assert_int_equal(setenv("TMPDIR", self->directory, 1), 0);
  self->tallies = mmap(NULL, CREW_PLACES_MAX * sizeof *self->tallies, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->tallies != MAP_FAILED);
  /* So that the orphans of a killed trial are re-parented to this process. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  block_signals(SIG_BLOCK);
}

void crew_release(struct crew *self) {
  for (int i = 0; i < self->count; i++) {
    redis_server_stop(self->places[i].servers[false]);
    redis_server_stop(self->places[i].servers[true]);
  }
  certificates_free(self->certificates);
  proc_kill_children(getpid());
  munmap(self->tallies, CREW_PLACES_MAX * sizeof *self->tallies);
  rmdir(self->directory);
}

/* Runs in the trial's process. */
static _Noreturn void be_trial(const struct family *family, struct trial *trial) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof path, "%s/trial.log", trial->directory);
  int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  setenv("TMPDIR", trial->directory, 1);
  block_signals(SIG_UNBLOCK);
  family->run(trial);
  exit(0);
}

/* Fills in the next trial, with the server that it shares. */
static void make_trial(const struct crew *self, struct crew_place *place,
                       const struct campaign *campaign) {
  const struct family *family = campaign->family;
  struct redis_server **server = &place->servers[campaign->over_tls];
  struct tally *tally = &self->tallies[place - self->places];
  *tally = (struct tally){0};
  place->trial = (struct trial){
      .family = family->name,
      .certificates = campaign->over_tls ? self->certificates : NULL,
      .by_role = family->by_role,
      .role = campaign->role,
      .number = campaign->number,
      .tally = tally,
      .random = {(unsigned short)campaign->number, (unsigned short)(campaign->number >> 16), 1}};
  if (family->shares_server && *server == NULL)
    *server = trial_start_server(&place->trial, NULL);
  place->trial.shared = *server;
}

static void begin_trial(struct crew *self, struct crew_place *place, struct campaign *campaign) {
  make_trial(self, place, campaign);
  char name[128];
  trial_name(&place->trial, '-', name, sizeof name);
  int length = snprintf(place->trial.directory, sizeof place->trial.directory, "%s/%s",
                        self->directory, name);
  assert_true(length > 0 && (size_t)length < sizeof place->trial.directory);
  assert_int_equal(mkdir(place->trial.directory, 0755), 0);
  pid_t crew = getpid();
  place->begin_ms = wait_now_ms();
  fflush(NULL);
  place->pid = fork();
  assert_true(place->pid >= 0);
  if (place->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == crew)
      be_trial(campaign->family, &place->trial);
    _exit(1);
  }
}

static void report(struct campaign *campaign, const struct trial *trial) {
  char name[128];
  if (campaign->kept == KEPT_MAX) {
    remove_directory(trial->directory);
    return;
  }
  campaign->kept++;
  trial_name(trial, ' ', name, sizeof name);
  printf("  %s: %s; see %s\n", name, trial->tally->gravest, trial->directory);
  fflush(stdout);
}

static void end_trial(const struct crew *self, struct crew_place *place, struct campaign *campaign,
                      int status) {
  struct tally *tally = place->trial.tally;
  place->pid = 0;
  if (self->told_to_end) {
    remove_directory(place->trial.directory);
    return;
  }
  if (status != 0) {
    tally->found[TALLY_WRONG]++;
    if (tally->gravest[0] == '\0')
      snprintf(tally->gravest, sizeof tally->gravest,
               "the trial did not get to its end, its log says why (status %d)", status);
  }
  campaign->runs++;
  campaign->uncut = tally->cuts > 0 ? 0 : campaign->uncut + 1;
  tally_add(&campaign->sum, tally);
  if (tally_is_clean(tally))
    remove_directory(place->trial.directory);
  else
    report(campaign, &place->trial);
}

/* Waits until a child has ended, a signal ends the program, or some time has passed. */
static void wait_for_signal(struct crew *self) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  int number = sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = 1});
  if (number == SIGINT || number == SIGTERM)
    self->told_to_end = true;
}

/* Returns how many trials are still running. */
static int look_around(struct crew *self, struct campaign *campaign) {
  int running = 0;
  for (int i = 0; i < self->count; i++) {
    struct crew_place *place = &self->places[i];
    int status;
    if (place->pid == 0)
      continue;
    if (self->told_to_end || wait_now_ms() - place->begin_ms > TRIAL_BOUND_MS)
      kill(place->pid, SIGKILL);
    if (waitpid(place->pid, &status, WNOHANG) == place->pid)
      end_trial(self, place, campaign, status);
    else
      running++;
  }
  return running;
}

static long uncut_limit(const struct campaign *campaign) {
  long limit = UNCUT_BYTES / campaign->stride;
  if (limit > UNCUT_MAX)
    return UNCUT_MAX;
  return limit < UNCUT_MIN ? UNCUT_MIN : limit;
}

/* Returns whether there are more trials. A family by byte ends separately on each connection; the
   others use each seed on both. */
static bool has_next(const struct campaign *campaign) {
  if (campaign->cuts > 0 && campaign->sum.cuts >= campaign->cuts)
    return false;
  return campaign->trials > 0 &&
         !(campaign->family->by_byte && campaign->uncut >= uncut_limit(campaign));
}

static void move_on(struct campaign *campaign) {
  bool both = campaign->family->by_role && !campaign->family->by_byte && !campaign->single;
  if (both && campaign->role == RELAY_INTAKE) {
    campaign->role = RELAY_OUTBOX;
    return;
  }
  if (both)
    campaign->role = RELAY_INTAKE;
  campaign->number += campaign->stride;
  campaign->trials--;
}

/* Runs trials, and returns when all of them have ended. */
static void run(struct crew *self, struct campaign *campaign) {
  for (int running = 0;;) {
    while (running < self->count && !self->told_to_end && has_next(campaign)) {
      int free_place = 0;
      while (self->places[free_place].pid != 0)
        free_place++;
      begin_trial(self, &self->places[free_place], campaign);
      move_on(campaign);
      running++;
    }
    if (running == 0)
      return;
    wait_for_signal(self);
    running = look_around(self, campaign);
  }
}

static bool conclude(const struct crew *self, const struct campaign *campaign) {
  const struct tally *sum = &campaign->sum;
  printf("%s%-*s %6ld runs %7ld cuts   lost %ld   doubled %ld   out of order %ld",
         campaign->over_tls ? "tls-" : "", campaign->over_tls ? 18 : 22, campaign->family->name,
         campaign->runs, sum->cuts, sum->found[TALLY_LOST], sum->found[TALLY_DOUBLED],
         sum->found[TALLY_DISORDERED]);
  if (sum->found[TALLY_WRONG] > 0)
    printf("   otherwise wrong %ld", sum->found[TALLY_WRONG]);
  if (sum->cuts == 0)
    printf("   nothing was broken");
  printf("   %.1f s\n", (double)(wait_now_ms() - campaign->begin_ms) / 1000);
  fflush(stdout);
  return tally_is_clean(sum) && sum->cuts > 0 && !self->told_to_end;
}

static void run_by_byte(struct crew *self, struct campaign *campaign) {
  for (int role = 0; role < RELAY_WORKERS; role++) {
    campaign->role = (enum relay_role)role;
    campaign->number = 1;
    campaign->trials = LONG_MAX;
    campaign->uncut = 0;
    run(self, campaign);
  }
}

/* All trials over TLS use the same certificates. */
static void make_certificates(struct crew *self) {
  if (self->certificates != NULL)
    return;
  self->certificates = certificates_new();
  certificates_add_authority(self->certificates, "ca");
  certificates_add(self->certificates, &(struct certificate){.name = "server"});
}

bool crew_run(struct crew *self, const struct family *family, bool over_tls, bool in_short) {
  long amount = (over_tls ? family->over_tls : family->amount)[in_short];
  struct campaign campaign = {.family = family,
                              .over_tls = over_tls,
                              .begin_ms = wait_now_ms(),
                              .number = self->seed,
                              .stride = 1,
                              .trials = family->by_cuts ? LONG_MAX : amount,
                              .cuts = family->by_cuts ? amount : 0};
  if (amount == 0)
    return true;
  if (over_tls)
    make_certificates(self);
  if (family->by_byte) {
    campaign.stride = amount;
    run_by_byte(self, &campaign);
  } else {
    run(self, &campaign);
  }
  return conclude(self, &campaign);
}

bool crew_run_one(struct crew *self, const struct family *family, bool over_tls,
                  enum relay_role role, long number) {
  struct campaign campaign = {.family = family,
                              .over_tls = over_tls,
                              .begin_ms = wait_now_ms(),
                              .single = true,
                              .role = role,
                              .number = number,
                              .stride = 1,
                              .trials = 1};
  if (over_tls)
    make_certificates(self);
  run(self, &campaign);
  return conclude(self, &campaign);
}
