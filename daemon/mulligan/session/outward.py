"""Programs that reach beyond the files, and how their words say whether they do something there or only look.

A rule takes a program's words and here documents and gives the kind of its effect, or "". The table is no more than
what agents are seen to run; a program that is not in it is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Rule = Callable[[Sequence[str], Sequence[str]], str]

GIT, PUBLISH, DATABASE, REMOTE, CONTAINER = "push", "publish", "database", "remote", "container"
CLUSTER, CLOUD, FORGE, MAIL, SYSTEM = "cluster", "cloud", "forge", "mail", "system"

_LOCAL = re.compile(
    r"(?:\w+://)?(?:[^@/\s]*@)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1\]?|[\w-]+\.(?:test|localhost))?(?:[:/]|\Z)"
)
_HOST = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)|\w+://")
#: Statements that only look.
_LOOKING = re.compile(r"\s*(?:(?:select|show|explain|describe|desc|table|values|use|pragma)\b|\\[dlzcx])", re.I)


def _plain(words: Sequence[str], valued: Sequence[str] = ()) -> list[str]:
    """The words that are neither options nor values of these."""
    plain: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            skip = word in valued
        elif not word.startswith("+"):
            plain.append(word)
    return plain


def _only(kind: str, verbs: str, valued: str = "") -> Rule:
    """Effective with these verbs alone; "a+b" is two words, "a*" a beginning."""
    wanted = [verb.split("+") for verb in verbs.split()]
    options = valued.split()

    def rule(words: Sequence[str], _documents: Sequence[str]) -> str:
        plain = _plain(words, options)
        return kind if any(_fits(plain, verb) for verb in wanted) else ""

    return rule


def _fits(plain: Sequence[str], verb: Sequence[str]) -> bool:
    if len(plain) < len(verb):
        return False
    pairs = zip(plain, verb, strict=False)
    return all(word == part or (part.endswith("*") and word.startswith(part[:-1])) for word, part in pairs)


def _unless(kind: str, looking: str, valued: str = "", nouns: str = "") -> Rule:
    """Effective but for the verbs that only look; behind a noun the verb is the second word."""
    verbs, options, groups = frozenset(looking.split()), valued.split(), frozenset(nouns.split())

    def rule(words: Sequence[str], _documents: Sequence[str]) -> str:
        plain = _plain(words, options)
        if plain and plain[0] in groups:
            plain = plain[1:]
        return kind if plain and plain[0] not in verbs else ""

    return rule


def _anywhere(kind: str, looking: str, valued: str = "") -> Rule:
    """Effective unless one of the words only looks: `gcloud compute instances list`."""
    verbs, options = re.compile(rf"(?:{looking.strip()})\Z"), valued.split()

    def rule(words: Sequence[str], _documents: Sequence[str]) -> str:
        plain = _plain(words, options)
        return "" if not plain or any(verbs.match(word) for word in plain) else kind

    return rule


def _always(kind: str, looking: str = "") -> Rule:
    options = frozenset(looking.split())

    def rule(words: Sequence[str], _documents: Sequence[str]) -> str:
        return kind if words and options.isdisjoint(words) else ""

    return rule


def _any(_words: Sequence[str], _documents: Sequence[str]) -> str:
    return PUBLISH


def _git(words: Sequence[str], _documents: Sequence[str]) -> str:
    plain = _plain(words, ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "-o", "--push-option"))
    if plain[:1] == ["push"]:
        return "" if "-n" in words else GIT
    reaching = (["send-email"], ["lfs", "push"], ["svn", "dcommit"], ["p4", "submit"], ["subtree", "push"])
    return GIT if any(plain[: len(verb)] == verb for verb in reaching) else ""


def _curl(words: Sequence[str], _documents: Sequence[str]) -> str:
    sending, asked, urls = False, "", list[str]()
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        if word in ("-X", "--request"):
            asked = following
        elif word.startswith(("-X", "--request=", "--method=")):
            asked = word.partition("=")[2] or word[2:]
        elif word.startswith(("-d", "-F", "-T", "--data", "--form", "--json", "--upload-file", "--post-", "--body-")):
            sending = True
        elif word in ("-G", "--get"):
            asked = "GET"
        elif re.match(r"\w+://|[\w-]+(?:\.[\w-]+)+(?:[:/]|\Z)|localhost\b", word) and "=" not in word.split("/")[0]:
            urls.append(word)
    method = asked.upper() or ("POST" if sending else "GET")
    if method in ("GET", "HEAD", "OPTIONS") or (urls and all(_LOCAL.match(url) for url in urls)):
        return ""
    return REMOTE


def _httpie(words: Sequence[str], _documents: Sequence[str]) -> str:
    plain = _plain(words, ("-a", "--auth", "-A", "--session", "-o", "--output", "--timeout"))
    method, rest = ("", plain) if not plain or not re.fullmatch(r"[A-Z]+", plain[0]) else (plain[0], plain[1:])
    if not rest or (_LOCAL.match(rest[0]) and rest[0] != "") or rest[0].startswith(":"):
        return ""
    data = any(re.match(r"[\w.\[\]-]+(?::?=|@)", word) and "==" not in word for word in rest[1:])
    return REMOTE if (method or ("POST" if data else "GET")) not in ("GET", "HEAD", "OPTIONS") else ""


def _copies_away(words: Sequence[str], _documents: Sequence[str]) -> str:
    """`scp`, `rsync` and their like write to another host if the last word names one."""
    plain = _plain(words, ("-e", "-i", "-P", "-F", "-o", "-l", "-S", "-c", "--rsh", "--exclude", "--include", "-f"))
    return REMOTE if len(plain) > 1 and _HOST.match(plain[-1]) and "-n" not in words else ""


def _aws(words: Sequence[str], _documents: Sequence[str]) -> str:
    plain = _plain(words, ("--profile", "--region", "--output", "--endpoint-url", "--query"))
    if len(plain) < 2 or plain[0] in ("configure", "sso", "sts"):
        return ""
    service, operation = plain[0], plain[1]
    if service == "s3" and operation in ("cp", "mv", "sync"):
        return CLOUD if any(word.startswith("s3://") for word in plain[3:]) or operation == "mv" else ""
    looking = "describe get list head lookup search filter wait validate estimate scan query batch-get select tail ls"
    return "" if operation.startswith((*looking.split(), "presign", "test-", "preview")) else CLOUD


def _gsutil(words: Sequence[str], _documents: Sequence[str]) -> str:
    plain = _plain(words)
    if plain[:1] in (["cp"], ["rsync"]):
        return CLOUD if plain[-1].startswith("gs://") else ""
    return CLOUD if plain[:1] in (["mv"], ["rm"], ["rb"], ["mb"], ["setmeta"], ["acl"], ["iam"]) else ""


def _gh(words: Sequence[str], _documents: Sequence[str]) -> str:
    plain = _plain(words, ("-R", "--repo", "-H", "--header", "-q", "--jq", "-t", "--template"))
    if plain[:1] == ["api"]:
        asked = next((words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-X", "--method")), "")
        fields = any(word in ("-f", "-F", "--field", "--raw-field", "--input") for word in words)
        return FORGE if (asked.upper() or ("POST" if fields else "GET")) not in ("GET", "HEAD") else ""
    beside = "auth browse config alias extension search status completion"
    if len(plain) < 2 or plain[0] in beside.split():
        return ""
    looking = "list view status diff checks watch download checkout clone ls show get verify trace"
    return "" if plain[1] in looking.split() else FORGE


def _rails(words: Sequence[str], _documents: Sequence[str]) -> str:
    looking = ("db:version", "db:migrate:status", "db:abort_if_pending_migrations", "db:schema:dump")
    return DATABASE if any(word.startswith("db:") and word not in looking for word in words) else ""


def _sql(*statement: str, files: str = "") -> Rule:
    """A database's client: effective unless all statements that it is given only look."""

    def rule(words: Sequence[str], documents: Sequence[str]) -> str:
        texts = list(documents)
        for place, word in enumerate(words):
            name, _, value = word.partition("=")
            if name in statement:
                texts.append(value or "".join(words[place + 1 : place + 2]))
            elif files and name in files.split():
                return DATABASE
        if {"-l", "--list", "-V"} & set(words):
            return ""
        parts = [part for text in texts for part in text.split(";") if part.strip()]
        return "" if parts and all(_LOOKING.match(part) for part in parts) else DATABASE

    return rule


def _redis(words: Sequence[str], _documents: Sequence[str]) -> str:
    plain = _plain(words, ("-h", "-p", "-a", "-n", "-u", "--user", "--pass"))
    looking = "get mget keys scan info ping ttl type exists llen lrange hget hgetall smembers zrange dbsize monitor"
    return DATABASE if plain and plain[0].lower() not in looking.split() else ""


_DOCKER_LOOKING = """
    ps images logs inspect version info stats top search history port diff events ls list df show config login logout
    wait attach help
"""
_DOCKER_VALUES = "--context -H --host -c --config -f --file -p --project-name --profile --env-file --project-directory"
_DOCKER_NOUNS = "compose image container volume network system context buildx manifest builder plugin service stack"
_DOCKER = _unless(CONTAINER, _DOCKER_LOOKING, _DOCKER_VALUES, _DOCKER_NOUNS)
_NPM = """
    publish unpublish deprecate undeprecate dist-tag+add dist-tag+rm owner+add owner+rm access+* npm+publish run+publish
    workspace+*+publish workspace+*+npm+publish workspaces+foreach+npm+publish
"""
_NPM_VALUES = "--prefix -w --workspace --filter -F -C --dir --cwd --registry --tag --access --otp"
_PRISMA = "migrate+deploy migrate+dev migrate+reset migrate+resolve db+push db+seed db+execute"
_PACKAGES = "install add remove purge upgrade dist-upgrade autoremove uninstall erase update group* reinstall tap"
_KUBECTL_LOOKING = """
    get describe logs log explain version api-resources api-versions cluster-info top diff auth wait events config
    port-forward proxy status history kustomize
"""
_CLOUD_LOOKING = """
    list|list-.*|describe|get|get-.*|show|print-.*|read|auth|login|logout|config|info|version|account|tail|ls|logs|ps
"""
_DEPLOYERS_LOOKING = """
    ls|list|diff|synth|print|info|logs|status|validate|build|local|init|package|version|details
"""
_TERRAFORM = "apply destroy import taint untaint state+rm state+mv state+push workspace+delete"
_PLATFORMS = """
    deploy* publish up launch scale secrets* secret+* destroy delete rollback d1+execute env* functions+deploy
"""

_DOTNET_NUGET = _only(PUBLISH, "nuget+push nuget+delete")
_DOTNET_EF = _only(DATABASE, "ef+database+update ef+database+drop")


def _dotnet(words: Sequence[str], documents: Sequence[str]) -> str:
    return _DOTNET_NUGET(words, documents) or _DOTNET_EF(words, documents)


def _rake(words: Sequence[str], documents: Sequence[str]) -> str:
    return PUBLISH if "release" in words else _rails(words, documents)


def _goreleaser(words: Sequence[str], _documents: Sequence[str]) -> str:
    return PUBLISH if "release" in words and "--snapshot" not in words else ""


def _mix(words: Sequence[str], _documents: Sequence[str]) -> str:
    verb = "".join(words[:1])
    if verb in ("ecto.migrate", "ecto.rollback", "ecto.drop", "ecto.reset", "ecto.setup", "ecto.create"):
        return DATABASE
    return PUBLISH if verb == "hex.publish" else ""


def _vercel(words: Sequence[str], _documents: Sequence[str]) -> str:
    looking = "dev build ls list logs inspect whoami pull link login logout project teams certs"
    return "" if "".join(_plain(words, ("--scope", "--token"))[:1]) in looking.split() else CLOUD


#: Programs, without their directories, and what their words mean.
_TABLE: list[tuple[str, Rule]] = [
    # other people's repositories
    ("git", _git),
    ("hg", _only(GIT, "push email")),
    ("svn", _only(GIT, "commit ci copy delete import mkdir")),
    ("jj", _only(GIT, "git+push")),
    ("sl", _only(GIT, "push")),
    ("gt", _only(GIT, "submit")),
    ("gh glab", _gh),
    ("hub", _only(FORGE, "pull-request create release+create fork")),
    # registries of packages
    ("npm pnpm yarn bun", _only(PUBLISH, _NPM, _NPM_VALUES)),
    ("lerna changeset", _only(PUBLISH, "publish")),
    ("semantic-release", _any),
    ("vsce ovsx", _only(PUBLISH, "publish unpublish")),
    ("cargo", _only(PUBLISH, "publish yank owner", "--manifest-path -p --package")),
    ("twine", _only(PUBLISH, "upload register")),
    ("poetry uv flit hatch pdm maturin rye", _only(PUBLISH, "publish upload")),
    ("gem", _only(PUBLISH, "push yank owner")),
    ("rake", _rake),
    ("mvn mvnw", _only(PUBLISH, "deploy clean+deploy release:perform clean+release:perform", "-pl -f -P")),
    ("gradle gradlew", _only(PUBLISH, "publish* upload*")),
    ("nuget", _only(PUBLISH, "push delete")),
    ("dotnet", _dotnet),
    ("pod", _only(PUBLISH, "trunk+push trunk+delete")),
    ("mix", _mix),
    ("goreleaser", _goreleaser),
    ("oras crane skopeo", _only(PUBLISH, "push copy delete tag sync")),
    # databases and their migrations
    ("alembic", _only(DATABASE, "upgrade downgrade stamp", "-c --config -n -x")),
    ("flask", _only(DATABASE, "db+upgrade db+downgrade db+stamp", "--app -A")),
    ("manage.py django-admin", _only(DATABASE, "migrate flush loaddata createsuperuser")),
    ("artisan", _only(DATABASE, "migrate* db:*")),
    ("rails", _rails),
    ("prisma", _only(DATABASE, _PRISMA)),
    ("knex", _only(DATABASE, "migrate:* seed:*")),
    ("sequelize sequelize-cli", _only(DATABASE, "db:*")),
    ("typeorm", _only(DATABASE, "migration:run migration:revert schema:*")),
    ("drizzle-kit", _only(DATABASE, "push migrate drop")),
    ("flyway", _only(DATABASE, "migrate clean undo repair baseline")),
    ("liquibase", _only(DATABASE, "update* rollback* drop*")),
    ("goose dbmate", _anywhere(DATABASE, "status|version|new|create|validate|fix|wait|dump", "-dir -d --url -u")),
    ("migrate", _anywhere(DATABASE, "create|version", "-path -database -source")),
    ("sqlx", _only(DATABASE, "migrate+run migrate+revert database+* db+*")),
    ("diesel", _only(DATABASE, "migration+run migration+redo migration+revert database+reset database+setup")),
    ("atlas", _only(DATABASE, "migrate+apply schema+apply schema+clean")),
    ("supabase", _only(DATABASE, "db+push db+reset migration+up functions+deploy")),
    ("psql", _sql("-c", "--command", files="-f --file")),
    ("mysql mariadb", _sql("-e", "--execute")),
    ("sqlcmd cqlsh clickhouse-client", _sql("-Q", "-q", "-e", "--query", files="-i -f")),
    ("mongosh mongo pg_restore mongorestore mysqladmin", _always(DATABASE)),
    ("dropdb createdb dropuser createuser", _always(DATABASE)),
    ("redis-cli", _redis),
    # other hosts
    ("curl wget", _curl),
    ("http https xh xhs", _httpie),
    ("ssh", _always(REMOTE, "-V -G -Q")),
    ("mosh sftp ftp lftp ssh-copy-id", _always(REMOTE)),
    ("scp rsync", _copies_away),
    ("rclone", _only(REMOTE, "copy sync move delete purge copyto moveto mkdir rmdir deletefile")),
    ("mail mailx sendmail mutt msmtp swaks", _always(MAIL)),
    # containers, clusters, clouds
    ("docker podman nerdctl docker-compose podman-compose", _DOCKER),
    ("kubectl oc", _unless(CLUSTER, _KUBECTL_LOOKING, "-n --namespace --context --kubeconfig --cluster", "rollout")),
    ("helm", _only(CLUSTER, "install upgrade uninstall delete rollback push", "-n --namespace --kube-context")),
    ("argocd", _only(CLUSTER, "app+sync app+create app+delete app+rollback app+set")),
    ("skaffold", _only(CLUSTER, "run deploy apply delete")),
    ("aws", _aws),
    ("gsutil", _gsutil),
    ("gcloud az doctl heroku oci", _anywhere(CLOUD, _CLOUD_LOOKING)),
    ("terraform tofu terragrunt", _only(CLOUD, _TERRAFORM, "-chdir")),
    ("pulumi", _only(CLOUD, "up update destroy refresh import cancel")),
    ("cdk sls serverless sam eb kamal cap", _anywhere(CLOUD, _DEPLOYERS_LOOKING)),
    ("ansible ansible-playbook", _always(CLOUD, "--check -C --syntax-check --list-hosts --list-tasks --list-tags")),
    ("netlify fly flyctl wrangler firebase railway", _only(CLOUD, _PLATFORMS)),
    ("vercel", _vercel),
    # the machine itself
    ("apt apt-get dnf yum brew apk zypper snap pacman", _only(SYSTEM, _PACKAGES)),
    ("systemctl", _unless(SYSTEM, "status show cat is-active is-enabled is-failed list-units list-timers")),
    ("launchctl useradd userdel usermod shutdown reboot", _always(SYSTEM)),
    ("crontab", _always(SYSTEM, "-l")),
]
RULES: dict[str, Rule] = {name: rule for names, rule in _TABLE for name in names.split()}
