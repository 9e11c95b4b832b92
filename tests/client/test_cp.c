/* sandbox cp: copies both ways, completely or not at all, and nothing outside of the target. */
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

JOB_TEST(a_file_is_copied_both_ways_with_its_mode) {
  expect(job,
         "head -c 5000000 /dev/urandom > f; chmod 750 f; $S cp f :$B/a/b && cmp f $B/a/b && "
         "stat -c %a $B/a/b",
         0, "750\n", "");
  expect(job, "$S cp :$B/a/b x/y && cmp f x/y && stat -c %a x/y", 0, "750\n", "");
  expect(job, "echo s > s; chmod 600 s; $S cp s :$B/a/b && cat $B/a/b && stat -c %a $B/a/b", 0,
         "s\n600\n", "");
  expect(job, "find . $B -name '.*' -type f", 0, "", "");
}

JOB_TEST(a_copy_to_a_directory_is_made_inside) {
  expect(job, "echo a > f; mkdir d; $S cp f :$B && cat $B/f && $S cp :$B/f d/ && cat d/f", 0,
         "a\na\n", "");
  expect(job, "$S cp d :$B && cat $B/d/f; $S cp :$B/d . && $S cp :$B/d new && cat new/f", 0,
         "a\na\n", "");
  expect(job, "$S cp d/. :$B/d/. && $S cp :$B/d/. . && ls", 0, "d\nf\nnew\n", "");
}

JOB_TEST_NO_AGENT(a_directory_is_copied_both_ways_unchanged) {
  const char *const environment[] = {job_format(job, "TMPDIR=%s", job_path(job, "tmp")), NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  expect(job,
         "mkdir $B/../tmp; n=$(printf 'n%.0s' $(seq 150)); mkdir -p d/sub/deep d/$n/$n; echo 1 > "
         "d/sub/f; "
         "chmod 755 d/sub/f; ln -s ../sub/f d/sub/l; echo 2 > d/$n/$n/$n; ln -s $n/$n/$n d/l; "
         "chmod 555 d/sub/deep; head -c 27000000 /dev/urandom > d/r; "
         "$S cp d :$B/e && diff -r --no-dereference d $B/e && $S cp :$B/e f && "
         "diff -r --no-dereference d f && stat -c %a f/sub/f f/sub/deep $B/e/sub/f; "
         "ls -A $B/../tmp; find . $B -maxdepth 2 -name '.sandbox-*'",
         0, "755\n555\n755\n", "");
}

JOB_TEST(a_copy_that_fails_says_why) {
  expect(job, "$S cp a b", 64, "", NULL);
  expect(job, "$S cp :a :b", 64, "", NULL);
  expect(job, "$S cp none :$B", 125, "", "sandbox: cannot read none: No such file or directory\n");
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
  expect(job, "mkdir $B/d; $S cp :$B/d p; echo $?; test -p p", 0, "125\n",
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
  expect(job, "ln -s none l; echo a > $B/f; $S cp :$B/f l; echo $?; test -L l", 0, "125\n",
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

/* --- an untrusted tar ------------------------------------------------------------------------- */

/* The sandbox's tar runs this script, which writes the archive "$a" with the real tar. */
static void start_with_tar(struct job *job, const char *script) {
  char *directory = job_path(job, "bin");
  sandbox_expect(job, job_format(job, "mkdir -p '%s'", directory), 0, "", "");
  (void)job_write(job, "bin/tar",
                  job_format(job,
                             "#!/bin/sh\nPATH=/usr/bin:/bin; a=$2; w=$(mktemp -d); cd $w; %s\n"
                             "rm -rf $w",
                             script),
                  0755);
  const char *const environment[] = {job_format(job, "PATH=%s:/usr/bin:/bin", directory), NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);
}

/* The copy fails, and leaves nothing in the target or outside of it. */
static void expect_rejected(struct job *job, const char *errors) {
  expect(job, "mkdir $B/d; $S cp :$B/d out/in/d; echo $?; ls -A out/in out . ", 0,
         "125\n.:\nout\n\nout:\nin\n\nout/in:\n", errors);
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
