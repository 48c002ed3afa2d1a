/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_server.c - `kvstore server`: this process is a server of a job until the job is over. */
#include "commands.h"
#include "serve.h"

int cmd_server(int argc, char **argv)
{
    return serve(argc, argv);
}
