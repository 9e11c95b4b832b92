/* sandbox cp: copies both ways, completely or not at all, and nothing outside of the target. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/as_user.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

/* Runs a script in which $B is a directory in the sandbox. The current directory is outside of it.
   */
static void expect(struct job *job, const char *script, int code, const char *output,
                   const char *errors) {
  sandbox_expect(job,
                 job_format(job, "B='%s'; mkdir -p $B '%s'; cd '%s'; %s", job_path(job, "box"),
                            job_path(job, "here"), job_path(job, "here"), script),
                 code, output, errors);
}

JOB_TEST(a_file_is_copied_both_ways_with_its_mode_and_time) {
  expect(job,
         "head -c 5000000 /dev/urandom > f; chmod 6750 f; touch -d @1000000000 f; "
         "$S cp f :$B/a/b && cmp f $B/a/b && stat -c '%a %Y' $B/a/b",
         0, "750 1000000000\n", "");
  expect(job, "chmod 4750 $B/a/b; $S cp :$B/a/b x/y && cmp f x/y && stat -c '%a %Y' x/y", 0,
         "750 1000000000\n", "");
  expect(job, "echo s > s; chmod 600 s; $S cp s :$B/a/b && cat $B/a/b && stat -c %a $B/a/b", 0,
         "s\n600\n", "");
  expect(job,
         "chmod 0 s; touch -d @1000000000 s; $S cp s :$B/a/b && $S cp :$B/a/b t && "
         "stat -c '%a %Y' $B/a/b t",
         0, "0 1000000000\n0 1000000000\n", "");
  expect(job, "find . $B -name '.*' -type f", 0, "", "");
}

JOB_TEST(a_copy_to_a_directory_is_made_inside) {
  expect(job, "echo a > f; mkdir d; $S cp f :$B && cat $B/f && $S cp :$B/f d/ && cat d/f", 0,
         "a\na\n", "");
  expect(job, "$S cp -r d :$B && cat $B/d/f; $S cp -a :$B/d . && $S cp :$B/d new && cat new/f", 0,
         "a\na\n", "");
  expect(job, "$S cp d/. :$B/d/. && $S cp :$B/d/. . && ls", 0, "d\nf\nnew\n", "");
}

/* Whether the source is a file or a directory. */
JOB_TEST(a_slash_at_the_end_stands_for_a_directory_that_exists) {
  expect(
      job,
      "mkdir d $B/d; echo a > f; echo a > $B/f; $S cp f :$B/d/ && $S cp :$B/f d/ && cat $B/d/f d/f",
      0, "a\na\n", "");
  for (const char *const *from = (const char *const[]){"f", "d", NULL}; *from != NULL; from++)
    expect(
        job,
        job_format(job,
                   "f=%s; for t in none/ f/; do $S cp :$B/$f $t; echo $?; $S cp $f :$B/$t 2> said; "
                   "echo $?; cut -d : -f 1,3 said; done; ls",
                   *from),
        0,
        "1\n1\nsandbox: there is no such directory\n1\n1\nsandbox: it is not a directory\n"
        "d\nf\nsaid\n",
        "sandbox: cannot copy to none/: there is no such directory\n"
        "sandbox: cannot copy to f/: it is not a directory\n");
}

JOB_TEST_NO_AGENT(a_directory_is_copied_both_ways_unchanged) {
  const char *const environment[] = {job_format(job, "TMPDIR=%s", job_path(job, "tmp")), NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  expect(job,
         "mkdir $B/../tmp; n=$(printf 'n%.0s' $(seq 150)); mkdir -p d/sub/deep d/$n/$n; echo 1 > "
         "d/sub/f; "
         "chmod 4755 d/sub/f; ln -s ../sub/f d/sub/l; echo 2 > d/$n/$n/$n; ln -s $n/$n/$n d/l; "
         "chmod 555 d/sub/deep; head -c 27000000 /dev/urandom > d/r; "
         "$S cp d :$B/e && diff -r --no-dereference d $B/e && $S cp :$B/e f && "
         "diff -r --no-dereference d f && stat -c %a f/sub/f f/sub/deep $B/e/sub/f; "
         "ls -A $B/../tmp; find . $B -maxdepth 2 -name '.sandbox-*'",
         0, "755\n555\n755\n", "");
  expect(job,
         "rm d/sub/l $B/e/sub/l; chmod 2755 $B/e/sub/f; touch -d @1000000000 d/sub $B/e/sub; "
         "$S cp :$B/e/sub g; $S cp d/sub :$B/h; stat -c %a g/f $B/h/f; stat -c %Y g $B/h",
         0, "755\n755\n1000000000\n1000000000\n", "");
}

JOB_TEST(a_copy_that_fails_says_why) {
  expect(job, "$S cp a b", 64, "", NULL);
  expect(job, "$S cp :a :b", 64, "", NULL);
  expect(job, "$S cp none :$B", 1, "", "sandbox: cannot read none: No such file or directory\n");
  expect(job, "$S cp :/none .", 1, "", "sandbox: cannot read /none: no such file in the sandbox\n");
  expect(job, "mkdir d; : > f; $S cp d :$B/../here/f", 1, "", NULL);
  expect(job, "mkfifo d/p; $S cp d :$B/e", 1, "", "sandbox: left out ./p: a FIFO\n");
}

JOB_TEST(a_fifo_is_written_to_and_not_replaced) {
  expect(job,
         "head -c 5000000 /dev/urandom > $B/f; mkfifo p; cat p > got & $S cp :$B/f p; c=$?; wait; "
         "cmp $B/f got && echo $c; test -p p",
         0, "0\n", "");
  expect(job, "$S cp :$B/f p & head -c 1 p > one; wait $!; echo $?; test -p p", 0, "141\n", "");
  expect(job,
         "$S cp :$B/f p & p=$!; until grep -q 'SigBlk:.*4001$' /proc/$p/status; do sleep 0.02; "
         "done; kill $p; wait $p; echo $?; test -p p",
         0, "143\n", NULL);
  expect(job, "mkdir $B/d; $S cp :$B/d p; echo $?; test -p p", 0, "1\n",
         "sandbox: cannot copy a directory to p: it is not a directory\n");
  expect(job, "ls -A", 0, "got\none\np\n", "");
}

/* /dev/stdout is a link to a pipe, or to a file that others have open. */
JOB_TEST(a_copy_can_go_to_any_name_of_standard_output) {
  expect(job,
         "ln -s /proc/self/fd/1 out; ln -s /proc/self/fd/2 err; echo a > $B/f; $S cp :$B/f out; "
         "$S cp :$B/f err; test -L out -a -L err",
         0, "a\n", "a\n");
  expect(job, "{ echo head; $S cp :$B/f out; echo tail; } > log; cat log; test -L out", 0,
         "head\na\ntail\n", "");
  expect(job, "printf '\\033[2Jx' > $B/f; ls -A", 0, "err\nlog\nout\n", "");
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, job_format(job, "exec $S cp :%s/f /proc/self/fd/1", job_path(job, "box")));
  sandbox_terminal_wait(terminal, "\uFFFD[2Jx");
  sandbox_terminal_free(terminal);
}

JOB_TEST(a_dangling_link_is_not_replaced) {
  expect(job, "ln -s none l; echo a > $B/f; $S cp :$B/f l; echo $?; test -L l", 0, "1\n",
         "sandbox: cannot write l: No such file or directory\n");
  expect(job, "ls -A", 0, "l\n", "");
}

JOB_TEST(an_archive_does_not_replace_a_fifo) {
  expect(job,
         "mkdir $B/d d; echo a > $B/d/p; echo b > $B/d/q; mkfifo d/p; $S cp :$B/d/. d; echo $?; "
         "test -p d/p && cat d/q",
         0, "1\nb\n", "sandbox: left out ./p: a FIFO has that name here\n");
}

/* The shell of the sandbox joins a file of this size. */
JOB_TEST(a_fifo_of_the_sandbox_is_not_replaced) {
  expect(job,
         "mkfifo $B/p; head -c 27000000 /dev/zero | $S write $B/p; echo $?; test -p $B/p && "
         "ls -A $B",
         0, "1\np\n", NULL);
}

JOB_TEST(an_interrupt_leaves_nothing_on_either_side) {
  expect(job,
         "mkdir d; head -c 60000000 /dev/urandom > d/f; "
         "$S cp d :$B/e & p=$!; until ls -A $B | grep -q part; do sleep 0.01; done; kill -HUP $p; "
         "wait $p; echo $?; ls -A $B; mv d $B/d; "
         "$S cp :$B/d e & p=$!; until ls -A | grep -q sandbox; do sleep 0.01; done; "
         "kill -TERM $p; wait $p; echo $?; ls -A",
         0, "129\n143\n", NULL);
}

/* --- what cannot be copied -------------------------------------------------------------------- */

/* Root needs its capabilities to read these entries. */
#define UNREADABLE "mkdir -p %1$s/c; echo a > %1$s/a; echo b > %1$s/b; chmod 0 %1$s/b %1$s/c; "

JOB_TEST_NO_AGENT(entries_that_cannot_be_read_are_skipped) {
  job->setup.uid = NOBODY;
  job_start_agent(job, NULL);
  expect(
      job,
      job_format(job,
                 UNREADABLE "chmod 777 $B; setpriv --bounding-set=-all $S cp d :$B/e 2> said; "
                            "echo $?; sort said; ls $B/e",
                 "d"),
      0,
      "1\nsandbox: left out ./b: Permission denied\nsandbox: left out ./c: Permission denied\na\n",
      "");
  expect(job,
         job_format(job,
                    UNREADABLE
                    "$S cp :$B/d new 2> said; echo $?; grep -c 'Permission denied' said; "
                    "ls new",
                    "$B/d"),
         0, "1\n2\na\n", "");
  expect(job, "for m in 0 444; do echo $m > f; chmod $m f; $S cp f :$B/$m; stat -c %a $B/$m; done",
         0, "0\n444\n", "");
}

static void own_mounts(void) {
  assert_int_equal(unshare(CLONE_NEWNS), 0);
  assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
}

/* Two file systems of different sizes, of which the smaller one comes first. */
static void start_in_small_space(struct job *job) {
  const char *const environment[] = {job_format(job, "TMPDIR=%s", job_path(job, "small")), NULL};
  own_mounts();
  static const char *const places[][2] = {
      {"small", "size=1m"}, {"box", "size=1m"}, {"here", "size=1m"}, {NULL, NULL}};
  for (int i = 0; places[i][0] != NULL; i++) {
    const char *path = job_path(job, places[i][0]);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(mount("tmpfs", path, "tmpfs", 0, places[i][1]), 0);
  }
  job->setup.environment = environment;
  job_start_agent(job, NULL);
}

JOB_TEST_NO_AGENT(an_archive_goes_where_there_is_space) {
  start_in_small_space(job);
  expect(job, "mkdir d; head -c 600000 /dev/urandom > d/f; $S cp d :$B/e && cmp d/f $B/e/f", 0, "",
         "");
  expect(job, "rm -r d; head -c 900000 /dev/urandom > $B/e/f; $S cp :$B/e d && cmp d/f $B/e/f", 0,
         "", "");
}

/* The agent is not root: it keeps the owner by writing into the file. */
JOB_TEST_NO_AGENT(the_owner_of_a_replaced_file_is_kept) {
  job->setup.uid = NOBODY;
  job_start_agent(job, NULL);
  expect(job,
         "head -c 27000000 /dev/zero > f; echo s > s; chmod 777 $B; "
         "for f in s f; do : > $B/o; chown 1234:4321 $B/o; chmod 666 $B/o; $S cp $f :$B/o; "
         "cmp $f $B/o && stat -c '%u:%g' $B/o; done; ls -A $B",
         0, "1234:4321\n1234:4321\no\n", NULL);
}

JOB_TEST(an_entry_that_cannot_be_written_is_skipped) {
  expect(job,
         "mkdir -p $B/d/x d/a d/l/f; echo a > $B/d/a; echo b > $B/d/b; echo x > $B/d/x/y; : > d/x; "
         "ln -s b $B/d/l; echo z > $B/d/z; $S cp :$B/d/. d 2> said; echo $?; sort said; ls d; "
         "cat d/b d/z",
         0,
         "1\nsandbox: left out ./a: Is a directory\nsandbox: left out ./l: Is a directory\n"
         "sandbox: left out ./x/: a file has that name here\na\nb\nl\nx\nz\nb\nz\n",
         "");
}

/* tar reports the entry, and unpacks the other ones. */
JOB_TEST_NO_AGENT(a_new_directory_is_kept_if_an_entry_cannot_be_written) {
  (void)job_write(job, "tar",
                  "#!/bin/sh\nPATH=/usr/bin:/bin; tar \"$@\" || exit; [ $1 = -xpof ] || exit 0\n"
                  "echo 'tar: ./l: Cannot create symlink' >&2; exit 2",
                  0755);
  const char *const environment[] = {job_format(job, "PATH=%s:/usr/bin:/bin", job_path(job, "")),
                                     NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  expect(job, "mkdir d; echo a > d/a; $S cp d :$B/e; echo $?; cat $B/e/a; ls -A $B", 0, "1\na\ne\n",
         "sandbox: tar: ./l: Cannot create symlink\n");
}

JOB_TEST_NO_AGENT(every_command_names_a_full_disk) {
  start_in_small_space(job);
  expect(
      job,
      "for c in 'read /etc/passwd' 'ls /' 'tree /etc' 'run -- echo a' ps 'top --json' doctor; do "
      "$S $c 2> said > /dev/full; echo $?; tail -n 1 said; done | sort | uniq -c | sed 's/^ *//'",
      0, "7 125\n7 sandbox: cannot write to standard output: No space left on device\n", "");
  expect(job, "$S cp :/etc/passwd /dev/full", 1, "",
         "sandbox: cannot write /dev/full: No space left on device\n");
  expect(job,
         "mkdir d; truncate -s 1100000 d/f; for s in d/f d; do $S cp $s :$B/e 2> said; echo $?; "
         "grep -c 'No space left on device' said; done; ls -A $B",
         0, "1\n1\n1\n1\n", "");
  expect(
      job,
      "rm -r *; mkdir $B/../d; truncate -s 1100000 $B/../d/f; for s in d/f d; do "
      "{ $S cp :$B/../$s e; echo $?; } 2>&1 | grep -o '^1$\\|No space left on device'; done; ls -A",
      0, "No space left on device\n1\nNo space left on device\n1\n", "");
}

/* A directory with a link, an empty directory, and modes. */
#define TREE                                                                                       \
  "mkdir -p d/sub/empty d/x; echo 1 > d/sub/f; ln -s ../sub/f d/x/l; ln -s . d/loop; "             \
  "head -c 5000000 /dev/urandom > d/r; chmod 4755 d/sub/f; chmod 600 d/r; chmod 500 d/x; "         \
  "touch -d @1000000000 d/sub/f d/x; "

/* The agent has no tar, but these programs. */
static void start_without_tar(struct job *job, const char *programs) {
  const char *const environment[] = {job_format(job, "PATH=%s", job_path(job, "bin")), NULL};
  expect(job,
         job_format(job, "mkdir -p ../bin; for p in %s; do ln -s $(command -v $p) ../bin; done",
                    programs),
         0, "", "");
  job->setup.environment = environment;
  job_start_agent(job, NULL);
}

JOB_TEST_NO_AGENT(without_tar_a_directory_is_copied_file_by_file) {
  start_without_tar(job, "stat chmod touch mkdir ln");
  expect(job,
         TREE "$S cp d :$B/e && diff -r --no-dereference d $B/e && $S cp :$B/e f && "
              "diff -r --no-dereference d f; stat -c '%a %Y' $B/e/sub/f $B/e/x f/sub/f f/x",
         0, "755 1000000000\n500 1000000000\n755 1000000000\n500 1000000000\n", "");
  expect(job, "chmod 0 $B/e; $S cp :$B/e g; stat -c %a g; chmod 700 $B/e", 0, "0\n", "");
  expect(job,
         "echo 2 > d/sub/f; $S cp d/. :$B/e && cat $B/e/sub/f; mkfifo $B/e/p; $S cp :$B/e/. f; "
         "echo $?; cat f/sub/f",
         0, "2\n1\n2\n",
         job_format(job, "sandbox: left out ./p: is a FIFO, not a regular file: %s/e/./p\n",
                    job_path(job, "box")));
}

/* The path of ./n…/n…/f is too long for the agent, which lists it without a mode. */
JOB_TEST_NO_AGENT(without_tar_an_entry_that_cannot_be_examined_is_reported) {
  start_without_tar(job, "");
  expect(job,
         "n=$(printf 'n%.0s' $(seq 200)); mkdir $B/d; echo a > $B/d/a; p=$B/d; cd $B/d; "
         "while [ ${#p} -lt 3880 ]; do mkdir $n; cd $n; p=$p/$n; done; "
         "m=$(printf 'm%.0s' $(seq $((4091 - ${#p})))); mkdir $m; cd $m; echo b > file; "
         "cd $B/../here; $S cp :$B/d e 2> said; echo $?; grep -c 'left out ./nn.*m/file: ' said; "
         "cat e/a",
         0, "1\n1\na\n", "");
}

JOB_TEST_NO_AGENT(without_tar_an_entry_that_cannot_be_written_is_skipped) {
  start_without_tar(job, "mkdir chmod touch ln");
  expect(
      job,
      "mkdir -p d/c $B/d/a $B/d/l/f; echo a > d/a; echo b > d/b; echo c > d/c/f; : > $B/d/c; "
      "ln -s b d/l; head -c 5000000 /dev/zero > d/z; mkdir $B/d/z; "
      "$S cp d/. :$B/d 2> said; echo $?; cut -d : -f 1-2 said | sort; ls $B/d; cat $B/d/b",
      0,
      "1\nsandbox: left out ./a\nsandbox: left out ./c/\nsandbox: left out ./z\na\nb\nc\nl\nz\nb\n",
      "");
}

/* The base64 of the second piece of f, and of the only one of s, contains a secret. */
JOB_TEST_NO_AGENT(without_tar_a_piece_that_fails_does_not_end_the_copy) {
  start_without_tar(job, "stat");
  cJSON *step = job_step(job, "stat", "-c", "x", "/", NULL);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "T", "SECRETSECRETSECRET01");
  cJSON_AddItemToArray(cJSON_AddArrayToObject(step, "secrets"), cJSON_CreateString("T"));
  job_expect_result(job, job_run(job, step), 0, NULL, "x\n");
  expect(job,
         "mkdir $B/d; echo a > $B/d/a; echo z > $B/d/z; "
         "{ head -c 4194304 /dev/zero; echo SECRETSECRETSECRET01 | base64 -d | tee $B/d/s; } "
         "> $B/d/f; $S cp :$B/d e 2> said; echo $?; cut -d : -f 1-2 said | sort; cat e/a e/z; "
         "cmp -n 4194304 e/f $B/d/f; stat -c %s e/f; ls e",
         0, "1\nsandbox: left out ./s\nsandbox: left out the rest of ./f\na\nz\n4194319\na\nf\nz\n",
         NULL);
}

/* The FIFO makes the client wait within the first pieces of the file. */
JOB_TEST(a_file_that_changes_while_it_is_copied_is_a_warning) {
  static const char *const changes[][2] = {{"-s 5000000", "became shorter"},
                                           {"-s 9000000", "grew"}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
    expect(job,
           job_format(job,
                      "rm -f p; mkfifo p; head -c 8000000 /dev/zero > $B/f; "
                      "{ head -c 1 > got; truncate %s $B/f; cat > got; } < p & "
                      "$S cp :$B/f p 2> said; echo $?; wait; grep -o '%s' said",
                      changes[i][0], changes[i][1]),
           0, job_format(job, "0\n%s\n", changes[i][1]), "");
}

JOB_TEST_NO_AGENT(a_directory_is_copied_even_if_the_image_has_no_program) {
  start_without_tar(job, "");
  expect(job,
         "mkdir d; truncate -s 27000000 d/a d/c; echo b > d/b; $S cp d :$B/e 2> said; echo $?; "
         "grep 'left out ./[ac]' said | sort; rm -r d; ls -A $B/e; rm -r $B/e",
         0,
         "1\nsandbox: left out ./a: a file of more than 25 MiB needs sh, cat, chmod and mv\n"
         "sandbox: left out ./c: a file of more than 25 MiB needs sh, cat, chmod and mv\nb\n",
         "");
  expect(job, TREE "$S cp d :$B/e 2> said; echo $?; diff -r --no-dereference d $B/e; wc -l < said",
         0, "1\nOnly in d: loop\nOnly in d/sub: empty\nOnly in d: x\n5\n", "");
  expect(job,
         "rm -r $B/e; cp -a d $B/e; $S cp :$B/e f 2> said; echo $?; diff -r --no-dereference d f; "
         "wc -l < said",
         0, "0\n1\n", "");
}

JOB_TEST_NO_AGENT(a_mode_that_cannot_be_set_does_not_change_the_next_one) {
  expect(job,
         "mkdir ../bin; printf '#!/bin/sh\\n[ $2 != 640 ] && exec /bin/chmod \"$@\"' > "
         "../bin/chmod; chmod 755 ../bin/chmod",
         0, "", "");
  start_without_tar(job, "touch mkdir");
  expect(job, "mkdir -m 700 d; : > d/a; chmod 640 d/a; $S cp d :$B/e; echo $?; stat -c %a $B/e", 0,
         "1\n700\n",
         job_format(
             job, "sandbox: the mode of %s/e/a is not kept: exited with code 1 and wrote nothing\n",
             job_path(job, "box")));
}

/* --- an untrusted tar ------------------------------------------------------------------------- */

/* The sandbox's tar runs this script, which writes the archive "$a" with the real tar, and exits
   with "$c". */
static void start_with_tar(struct job *job, const char *script) {
  char *directory = job_path(job, "bin");
  sandbox_expect(job, job_format(job, "mkdir -p '%s'", directory), 0, "", "");
  (void)job_write(
      job, "bin/tar",
      job_format(job,
                 "#!/bin/sh\nPATH=/usr/bin:/bin; [ $1 = -cf ] || exec tar \"$@\"\n"
                 "w=$(mktemp -d); a=$w.tar; c=0; cd $w; %s\ncat $a; rm -rf $w $a; exit $c",
                 script),
      0755);
  const char *const environment[] = {job_format(job, "PATH=%s:/usr/bin:/bin", directory), NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);
}

JOB_TEST_NO_AGENT(a_file_that_changes_while_it_is_read_is_a_warning) {
  start_with_tar(job,
                 "echo x > f; tar -cf $a .; echo 'tar: ./f: file changed as we read it' >&2; c=1");
  expect(job, "mkdir $B/d; $S cp :$B/d e && ls e", 0, "f\n",
         "tar: ./f: file changed as we read it\n");
  own_mounts(); /* files of sysfs are shorter than their sizes */
  expect(job,
         "mkdir d; : > d/f; mount --bind /sys/kernel/fscaps d/f; $S cp d :$B/new && head -n 1 "
         "$B/new/f "
         "&& stat -c %s $B/new/f; umount d/f",
         0, "1\n4096\n", "sandbox: warning: ./f: it became shorter while it was read\n");
}

JOB_TEST(a_file_that_changes_while_it_is_sent_is_a_warning) {
  expect(job,
         "mkdir d; for s in d/f d; do head -c 60000000 /dev/zero > d/f; $S cp $s :$B/e 2> said & "
         "p=$!; until ls -A $B | grep -q part; do sleep 0.01; done; echo a >> d/f; wait $p; "
         "echo $?; cat said; rm -r $B/*; done",
         0,
         "0\nsandbox: warning: d/f: it changed while it was read\n"
         "0\nsandbox: warning: ./f: it changed while it was read\n",
         "");
}

JOB_TEST_NO_AGENT(a_large_copy_has_no_time_limit) {
  char *fifo = job_path(job, "pause");
  assert_int_equal(mkfifo(fifo, 0666), 0);
  start_with_tar(job, job_format(job, "cat '%s'; echo x > f; tar -cf $a .", fifo));
  expect(job, "mkdir $B/d", 0, "", "");
  struct agent_process *client =
      sandbox_start(job, job_format(job, "cd '%s'; $S cp :'%s' e", job_path(job, "here"),
                                    job_path(job, "box/d")));
  int fd;
  while ((fd = open(fifo, O_WRONLY | O_NONBLOCK)) < 0)
    assert_true(agent_process_is_running(client));
  const char *step = job_ask_text(job, "LINDEX sandbox:%s:inflight 0", job->id);
  assert_non_null(strstr(step, "\"timeoutSeconds\":31536000"));
  (void)close(fd);
  (void)agent_process_wait(client, WAIT_BOUND_MS);
  agent_process_free(client);
}

/* The copy fails, and leaves nothing in the target or outside of it. */
static void expect_rejected(struct job *job, const char *errors) {
  expect(job, "mkdir $B/d; $S cp :$B/d out/in/d; echo $?; ls -A out/in out . ", 0,
         "1\n.:\nout\n\nout:\nin\n\nout/in:\n", errors);
}

JOB_TEST_NO_AGENT(a_name_outside_of_the_target_is_rejected) {
  start_with_tar(job, "echo x > f; tar -P --transform 's,^,a/../../,' -cf $a f");
  expect_rejected(job, "sandbox: rejected a/../../f: it leads out of the directory\n");
}

JOB_TEST_NO_AGENT(an_absolute_name_is_rejected) {
  start_with_tar(job, "echo x > f; tar -P --transform 's,^,/tmp/,' -cf $a f");
  expect_rejected(job, "sandbox: rejected /tmp/f: the name is absolute\n");
}

JOB_TEST_NO_AGENT(a_name_behind_a_link_is_rejected) {
  start_with_tar(job, "ln -s sub l; mkdir sub; tar -cf $a sub l; rm l; mkdir l; echo x > l/f; "
                      "tar -rf $a l/f");
  expect_rejected(job, "sandbox: rejected l/f: it leads through a link or a file\n");
}

JOB_TEST_NO_AGENT(a_hard_link_outside_of_the_target_is_rejected) {
  start_with_tar(job, "echo x > f; ln f g; tar -P --transform 's,^f,../../f,h' --transform "
                      "'s,^f,k,r' -cf $a f g");
  expect_rejected(job, "sandbox: rejected ../../f: it leads out of the directory\n");
}

JOB_TEST_NO_AGENT(links_that_leave_the_copy_are_skipped) {
  start_with_tar(job,
                 "ln -s /etc/passwd a; ln -s ../x b; mkdir d; ln -s ../../x d/c; ln -s .. d/e; "
                 "ln -s d/.. f; ln -s d/e g; tar -cf $a a b d f g");
  expect(job, "mkdir $B/d; $S cp :$B/d e 2> said; echo $?; find e | sort; grep -c 'leads out' said",
         0, "1\ne\ne/d\ne/d/e\ne/g\n4\n", "");
}

JOB_TEST_NO_AGENT(an_incomplete_archive_leaves_nothing) {
  start_with_tar(job, "echo x > f; tar -cf - f | head -c 700 > $a");
  expect_rejected(job, "sandbox: the archive is incomplete\n");
}
