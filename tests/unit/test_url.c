#include "agent/frontends/redis/connection/url.h"
#include "tests/test.h"

/* Asserts that both are NULL, or the same text. */
static void assert_text(const char *url, const char *is, const char *expected) {
  if ((is == NULL) != (expected == NULL) || (is != NULL && strcmp(is, expected) != 0))
    fail_msg("%s: got %s, not %s", url, is != NULL ? is : "NULL",
             expected != NULL ? expected : "NULL");
}

static const struct {
  const char *text;
  const char *name; /* the display name: host and port, path, or the master and its sentinels */
  const char *user;
  const char *password;
  unsigned database;
} accepted[] = {
    {"redis://h", "h:6379", NULL, NULL, 0},
    {"REDIS://h", "h:6379", NULL, NULL, 0},
    {"redis://h/", "h:6379", NULL, NULL, 0},
    {"redis://h:1", "h:1", NULL, NULL, 0},
    {"redis://h:65535/15", "h:65535", NULL, NULL, 15},
    {"redis://h:007/999999999", "h:7", NULL, NULL, 999999999},
    {"redis://10.0.0.1:6380", "10.0.0.1:6380", NULL, NULL, 0},
    {"redis://[::1]", "[::1]:6379", NULL, NULL, 0},
    {"redis://[fe80::1%eth0]:6380/2", "[fe80::1%eth0]:6380", NULL, NULL, 2},
    {"redis://u:p@h:1/2", "h:1", "u", "p", 2},
    {"redis://:p@h", "h:6379", NULL, "p", 0},
    {"redis://p@h", "h:6379", NULL, "p", 0},
    {"redis://u%3a%40:p%2F%25%40@h", "h:6379", "u:@", "p/%@", 0},
    {"redis://u+%41%4a:%4A%2525@h", "h:6379", "u+AJ", "J%25", 0},
    {"redis://u:a/b:c@d@h", "h:6379", "u", "a/b:c@d", 0},
    {"redis://u:\xE2\x82\xAC@h", "h:6379", "u", "\xE2\x82\xAC", 0},
    /* Templates with nothing to fill in. */
    {"redis://@h", "h:6379", NULL, NULL, 0},
    {"redis://:@h", "h:6379", NULL, NULL, 0},
    {"redis://u:@h", "h:6379", "u", "", 0},
    /* Sockets. */
    {"unix:///s", "/s", NULL, NULL, 0},
    {"UNIX:///run/redis.sock?db=3", "/run/redis.sock", NULL, NULL, 3},
    {"unix://u:p@/s", "/s", "u", "p", 0},
    {"unix://p@/s", "/s", NULL, "p", 0},
    {"unix://u:p@w@/a@b?db=1", "/a@b", "u", "p@w", 1},
    {"unix:///a@b", "/a@b", NULL, NULL, 0},
    {"unix:///a:b,c d", "/a:b,c d", NULL, NULL, 0},
    /* The form of StackExchange.Redis. */
    {"h", "h:6379", NULL, NULL, 0},
    {"h:1", "h:1", NULL, NULL, 0},
    {"[::1]:1,password=p", "[::1]:1", NULL, "p", 0},
    {"h:1,password=p,user=u,defaultDatabase=4", "h:1", "u", "p", 4},
    {"h,PASSWORD=p,User=u,DEFAULTDATABASE=4", "h:6379", "u", "p", 4},
    {" h:1 , password = p w , user = u ,, ", "h:1", "u", "p w", 0},
    {"h,password=a=b:/@%41", "h:6379", NULL, "a=b:/@%41", 0},
    {"h,password=redis://u:x@y", "h:6379", NULL, "redis://u:x@y", 0},
    {"h,password=1,password=2", "h:6379", NULL, "2", 0},
    {"h,user=u", "h:6379", "u", "", 0},
    {"h,password=,user=", "h:6379", NULL, NULL, 0},
    /* Ignored options, and some that only begin like others. */
    {"h,abortConnect=false,connectRetry=3,ssl=false,passwordX=y,users=x,use=x,ssl=no,ssl=0,ssl=OFF",
     "h:6379", NULL, NULL, 0},
    /* Several servers, or sentinels. */
    {"a:1,b,password=p", "a:1,b:6379", NULL, "p", 0},
    {" a , [::1]:2 , ssl=true ", "a:6380,[::1]:2", NULL, NULL, 0},
    {"a,ssl=yes", "a:6380", NULL, NULL, 0},
    {"a,ssl=on,serviceName=m", "m at a:26379", NULL, NULL, 0},
    {"a,b:2,serviceName=m", "m at a:26379,b:2", NULL, NULL, 0},
    {"a,ServiceName=m,defaultDatabase=3", "m at a:26379", NULL, NULL, 3},
    {"a,serviceName=", "a:6379", NULL, NULL, 0},
    /* Sentinels. */
    {"redis+sentinel://h/m", "m at h:26379", NULL, NULL, 0},
    {"REDIS+Sentinel://h:1/m/", "m at h:1", NULL, NULL, 0},
    {"redis+sentinel://a:1,b,[::1]:3,[::2]/my-master/15",
     "my-master at a:1,b:26379,[::1]:3,[::2]:26379", NULL, NULL, 15},
    {"redis+sentinel://u:p@a:1,b:2/m", "m at a:1,b:2", "u", "p", 0},
    {"redis+sentinel://:p%2C,/q@a:1,b:2/m/3", "m at a:1,b:2", NULL, "p,,/q", 3},
    {"redis+sentinel://:@h/m", "m at h:26379", NULL, NULL, 0},
    {"redis+sentinel://h/a,b:c", "a,b:c at h:26379", NULL, NULL, 0},
};

TEST(each_form_of_a_url_is_accepted) {
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
    struct redis_url url;
    struct error error = {.text = "untouched"};
    char name[128];
    if (redis_url_parse(&url, accepted[i].text, &error) != 0)
      fail_msg("%s: %s", accepted[i].text, error.text);
    assert_string_equal(error.text, "untouched");
    redis_url_name(&url, name, sizeof name);
    assert_text(accepted[i].text, name, accepted[i].name);
    assert_int_equal(url.hosts[0].port == 0, accepted[i].name[0] == '/');
    assert_text(accepted[i].text, url.user, accepted[i].user);
    assert_text(accepted[i].text, url.password, accepted[i].password);
    assert_int_equal(url.database, accepted[i].database);
    redis_url_release(&url);
    assert_true(url.hosts == NULL && url.password == NULL && url.master == NULL);
    assert_int_equal(url.host_count, 0);
  }
}

static const struct {
  const char *message;
  const char *texts[16];
} refused[] = {
    {"the host is missing",
     {"", "redis://", "redis://:1", "redis://u:p@", "redis://[]:1", ",password=s3cret", "::1",
      "redis+sentinel://", "redis+sentinel:///m", "redis+sentinel://a,/m",
      "redis+sentinel://,a/m"}},
    {"'[' without ']' in the host", {"redis://[::1:1", "redis+sentinel://a:1,[::1/m"}},
    {"the port must be a number from 1 to 65535",
     {"redis://h:", "redis://h:0", "redis://h:65536", "redis://h:99999999999999999999",
      "redis://h:+1", "redis://h:-1", "redis://h: 1", "redis://h:1x", "redis://[::1]1",
      "u:s3cret@h:1", "redis://a:1,b:2", "redis+sentinel://a:1,b:x/m", "a:1,b:x", "a:x,ssl=true"}},
    {"expected name=value after the first option; a password with a comma needs redis:// or "
     "rediss://",
     {"h,password=s3,cret", "a,b,ssl=true,c", "h,password=s3cret, h2:1 ,ssl=true"}},
    {"ssl must be true or false", {"h,ssl=", "h,ssl=maybe", "h,ssl=tru", "h,ssl=truer"}},
    {"the database must be a number",
     {"redis://h/x", "redis://h/1/2", "redis://h/-1", "redis://h/1000000000", "h,defaultDatabase=x",
      "h,defaultDatabase=", "unix:///s?db=", "redis+sentinel://a:1/m/x",
      "redis+sentinel://a:1/m/1/2"}},
    {"expected /db after host and port", {"redis://h?db=1", "redis://h#1"}},
    {"the user name has an invalid percent-encoding", {"redis://u%:s3cret@h"}},
    {"the password has an invalid percent-encoding",
     {"redis://u:s3cret%@h", "redis://u:s3cret%4@h1", "redis://u:s3cret%g4@h",
      "redis://u:s3cret%4g@h", "redis://u:s3cret%00@h", "redis+sentinel://u:s3cret%@a/m"}},
    {"expected a host first",
     {"s3cret@h", "password=s3cret,h", "redis://a b", "redis://a\nb", "h/1", "redis://a,b",
      "redis+sentinel://a,password=s3cret/m"}},
    {"expected redis://, rediss://, redis+sentinel://, rediss+sentinel://, unix:// or host:port",
     {"http://u:s3cret@h", "redisss://h", "rediss+unix:///s"}},
    {"expected unix:///path/to/socket",
     {"unix://", "unix:///", "unix://s", "unix://u:s3cret@s", "unix:///?db=1"}},
    {"expected ?db=n after the socket's path", {"unix:///s?x=1"}},
    {"expected /master-name after the sentinels",
     {"redis+sentinel://a:1", "redis+sentinel://a:1/", "redis+sentinel://a:1//1",
      "redis+sentinel://a:1?m", "redis+sentinel://a:1/m m"}},
    {"expected /db after the master's name", {"redis+sentinel://a:1/m?db=1"}},
};

static void expect_refused(const char *text, const char *message) {
  struct redis_url url;
  struct error error;
  char expected[160];
  snprintf(expected, sizeof expected, "redis url: %s", message);
  if (redis_url_parse(&url, text, &error) != -1)
    fail_msg("accepted: %s", text);
  if (strcmp(error.text, expected) != 0)
    fail_msg("%s: %s", text, error.text);
  assert_true(url.hosts == NULL && url.master == NULL);
  assert_true(url.user == NULL && url.password == NULL);
}

TEST(a_malformed_url_is_rejected) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    for (size_t k = 0; k < 16 && refused[i].texts[k] != NULL; k++)
      expect_refused(refused[i].texts[k], refused[i].message);
}

TEST(tls_can_be_chosen_in_each_form) {
  static const struct {
    const char *text;
    bool secure;
    const char *tls_name;
    const char *ignored;
  } rows[] = {
      {"redis://h", false, NULL, NULL},
      {"rediss://h", true, NULL, NULL},
      {"REDISS://u:p@h:6380/1", true, NULL, NULL},
      {"rediss+sentinel://h/m", true, NULL, NULL},
      {"h", false, NULL, NULL},
      {"h,ssl=true", true, NULL, NULL},
      {"h,ssl=Yes,sslHost=", true, NULL, NULL},
      {"h,ssl=1", true, NULL, NULL},
      {"h,ssl=on", true, NULL, NULL},
      {"h,ssl=on,ssl=no", false, NULL, NULL},
      {"h,ssl = True ,sslHost=name.test", true, "name.test", NULL},
      {"h,SSL=false,sslhost=name.test", false, "name.test", NULL},
      {"h:6380,password=p,ssl=True,abortConnect=False,sslProtocols=tls12", true, NULL,
       "abortConnect, sslProtocols"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct redis_url url;
    struct error error;
    assert_int_equal(redis_url_parse(&url, rows[i].text, &error), 0);
    assert_int_equal(url.secure, rows[i].secure);
    assert_text(rows[i].text, url.tls_name, rows[i].tls_name);
    assert_text(rows[i].text, url.ignored, rows[i].ignored);
    redis_url_release(&url);
  }
}

TEST(a_long_display_name_is_cut) {
  static const struct {
    const char *text;
    const char *name;
  } rows[] = {{"redis+sentinel://a,b,c/m", "m at a:26379,b:"},
              {"redis+sentinel://a/a-name-that-is-too-long", "a-name-that-is-"},
              {"redis://a-name-that-is-too-long", "a-name-that-is-"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct redis_url url;
    struct error error;
    char name[16];
    assert_int_equal(redis_url_parse(&url, rows[i].text, &error), 0);
    redis_url_name(&url, name, sizeof name);
    assert_string_equal(name, rows[i].name);
    redis_url_release(&url);
  }
}

TEST(passwords_are_redacted) {
  static const struct {
    const char *text;
    const char *redacted;
  } rows[] = {
      {"redis://u:p@h:1/2", "redis://u:*@h:1/2"},
      {"redis://:p%40/@q@h", "redis://:*******@h"},
      {"redis://secret@h", "redis://******@h"},
      {"--redis-url=redis://u:pw@h", "--redis-url=redis://u:**@h"},
      {"rediss://u:pw@h", "rediss://u:**@h"},
      {"unix://u:p@w@/a@b", "unix://u:***@/a@b"},
      {"redis+sentinel://u:p,/@w@a:1,b:2/m", "redis+sentinel://u:*****@a:1,b:2/m"},
      {"redis+sentinel://pw@a:1/m", "redis+sentinel://**@a:1/m"},
      {"redis+sentinel://a:1,b:2/m", "redis+sentinel://a:1,b:2/m"},
      {"h:1,password=p w,user=u", "h:1,password=**********"},
      {"h, Password = pw,user=u", "h, Password =**********"},
      {"--redis-url=h,password=pw", "--redis-url=h,password=**"},
      {"h,password=1,password=2", "h,password=************"},
      {"h,password=password=1", "h,password=**********"},
      {"password=pw,h", "password=****"},
      {"h,password=s3,cr=et", "h,password=********"},
      /* A password that looks like the other form. */
      {"redis://u:a,password=b@h", "redis://u:**************"},
      {"h,name=a://b,password=c@d", "h,name=a://**************"},
      /* Nothing to redact. */
      {"", ""},
      {"@", "@"},
      {"://", "://"},
      {"password", "password"},
      {"h:1,passwordX=1,user=u", "h:1,passwordX=1,user=u"},
      {"redis://h:1/2", "redis://h:1/2"},
      {"unix:///run/a@b", "unix:///run/a@b"},
      {"--verbose", "--verbose"},
      {"a@b", "a@b"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *text = strdup(rows[i].text);
    assert_non_null(text);
    redis_url_redact(text);
    assert_int_equal(strlen(text), strlen(rows[i].text));
    assert_string_equal(text, rows[i].redacted);
    free(text);
  }
}

static bool hosts_hold(const struct redis_url *url, const char *text) {
  char name[256];
  redis_url_name(url, name, sizeof name);
  return strstr(name, text) != NULL;
}

/* Text that is parsed as a password is not left by the redaction. */
TEST(no_password_is_left_after_redaction) {
  static const char *const pieces[] = {
      "redis://", "unix://", "@", "/",   ":", ",", "password", "=",    "user=u",           "h",
      "S3CRET",   "%41",     " ", "://", "[", "]", "S3CRET@",  "6379", "redis+sentinel://"};
  unsigned seed = 1;
  size_t parsed = 0;
  for (int i = 0; i < 400000; i++) {
    char text[128] = "";
    seed = seed * 1103515245U + 12345U;
    for (unsigned n = 2 + (seed >> 16) % 7; n > 0; n--) {
      seed = seed * 1103515245U + 12345U;
      (void)strcat(text, pieces[(seed >> 16) % (sizeof pieces / sizeof *pieces)]);
    }
    struct redis_url url;
    struct error error;
    if (redis_url_parse(&url, text, &error) != 0)
      continue;
    redis_url_redact(text);
    if (url.password != NULL && strstr(url.password, "S3CRET") != NULL) {
      parsed++;
      if (strstr(text, "S3CRET") != NULL && (url.user == NULL || !strstr(url.user, "S3CRET")) &&
          !hosts_hold(&url, "S3CRET"))
        fail_msg("S3CRET stays: %s", text);
    }
    redis_url_release(&url);
  }
  assert_true(parsed > 100);
}

TEST(a_redirection_names_a_node) {
  static const struct {
    const char *text;
    const char *host;
    unsigned port;
  } rows[] = {
      {"127.0.0.1:6381", "127.0.0.1", 6381},
      {"node-1.example:1", "node-1.example", 1},
      {"2001:db8::1:6381", "2001:db8::1", 6381},
      {":65535", "same", 65535},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct redis_address address;
    assert_int_equal(redis_address_parse_redirect(&address, rows[i].text, "same"), 0);
    assert_string_equal(address.host, rows[i].host);
    assert_int_equal(address.port, rows[i].port);
    redis_address_release(&address);
    assert_null(address.host);
    redis_address_release(&address);
  }
}

TEST(a_malformed_redirection_is_rejected) {
  static const char *const texts[] = {"",        ":",     "h",     "h:",    "h:0",
                                      "h:65536", "h:x",   "h:1 ",  "h :1",  "h:-1",
                                      "?:6379",  "a,b:1", "h\n:1", "a@b:1", "h:123456789012"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct redis_address address;
    if (redis_address_parse_redirect(&address, texts[i], "same") != -1)
      fail_msg("accepted: %s", texts[i]);
  }
  struct redis_address address;
  assert_int_equal(redis_address_parse_redirect(&address, ":6379", NULL), -1);
}
