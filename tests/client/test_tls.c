/* sandbox over TLS, with the variables of the agent, as in a pod with
   deploy/components/tls. */

#include "tests/support/certificates.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

TEST(the_tls_variables_of_the_agent_are_enough) {
  struct certificates *certificates = certificates_new();
  certificates_add_authority(certificates, "ca");
  certificates_add(certificates, &(struct certificate){.name = "server"});
  struct job *job = job_new(redis_server_start_tls(certificates, NULL));
  const char *authority =
      job_format(job, "REDIS_CACERT=%s", certificates_path(certificates, "ca.pem"));
  job->url = job_format(job, "rediss://%s127.0.0.1:%d", redis_server_login(),
                        redis_server_tls_port(job->server));
  const char *const environment[] = {authority, NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);

  sandbox_expect(job, job_format(job, "%s $S run -c 'echo \"$REDIS_CACERT\"; exit 7'", authority),
                 7, "\n", "");
  job_shut_down(job);
  job_free(job);
  certificates_free(certificates);
}
