"""What commands did that no restore undoes: lines as agents run them, with the right answer beside each."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.session.ledger import Effect, effects
from mulligan.session.shell import read

COMMIT = """git add -A && git commit -m "$(cat <<'EOF'
Don't push (yet); `git push` comes "later

Co-Authored-By: an agent
EOF
)" """

#: Command line → the kinds and commands of its effects.
LINES: list[tuple[str, list[tuple[str, str]]]] = [
    # pushes
    ("git push", [("push", "git push")]),
    ("git push -u origin main", [("push", "git push -u origin main")]),
    ("git add -A && git commit -m 'x' && git push origin HEAD", [("push", "git push origin HEAD")]),
    (COMMIT, []),
    (COMMIT + "&& git push", [("push", "git push")]),
    ("cd /srv/app; git -C sub -c http.proxy= push --force", [("push", "git -C sub -c http.proxy= push --force")]),
    ("git push --dry-run", []),
    ("git push -n origin", []),
    ("git commit -m 'git push'", []),
    ('echo "then git push; curl -X POST https://a.example"', []),
    ("git status # git push", []),
    ("git stash push && git log", []),
    ("git lfs push origin main", [("push", "git lfs push origin main")]),
    ("GIT_SSH_COMMAND='ssh -i k' git push", [("push", "git push")]),
    ("env -u HTTP_PROXY A=1 git push", [("push", "git push")]),
    ("sudo -u deploy -- git push", [("push", "git push")]),
    ("timeout -k 5 60 git push", [("push", "git push")]),
    ("bash -lc 'cd x && git push origin main'", [("push", "git push origin main")]),
    ("bash <<'EOF'\nset -e\ngit push\nEOF\n", [("push", "git push")]),
    ("cat <<'EOF' > notes\ngit push\nEOF\nls", []),
    ("for r in a b; do git -C $r push; done", [("push", "git -C $r push")]),
    ("if ! git push; then echo no; fi", [("push", "git push")]),
    ("out=$(git push 2>&1) || echo $out", [("push", "git push")]),
    ("(cd sub && git push) | tee log", [("push", "git push")]),
    ("find . -name .git -execdir git push \\;", [("push", "git push")]),
    ("echo a | xargs -n 1 -I{} git push {}", [("push", "git push {}")]),
    ("gh pr create --fill", [("forge", "gh pr create --fill")]),
    ("gh pr view 3 && gh pr checkout 3 && gh run list", []),
    ("gh api repos/o/r/issues", []),
    ("gh api -X DELETE repos/o/r/git/refs/x", [("forge", "gh api -X DELETE repos/o/r/git/refs/x")]),
    ("gh api repos/o/r/issues -f title=x", [("forge", "gh api repos/o/r/issues -f title=x")]),
    # packages
    ("npm publish --access public", [("publish", "npm publish --access public")]),
    ("npm run build && npm test && npm install", []),
    ("npm publish --dry-run", []),
    ("pnpm --filter core publish", [("publish", "pnpm --filter core publish")]),
    ("python -m build && python3 -m twine upload dist/*", [("publish", "twine upload dist/*")]),
    ("twine check dist/*", []),
    ("cargo +nightly publish -p core", [("publish", "cargo +nightly publish -p core")]),
    ("cargo build --release", []),
    ("uv build && uv publish", [("publish", "uv publish")]),
    ("./gradlew publishToMavenCentral", [("publish", "./gradlew publishToMavenCentral")]),
    # databases
    ("python manage.py migrate", [("database", "python manage.py migrate")]),
    ("python manage.py showmigrations && python manage.py test", []),
    ("python manage.py makemigrations", []),
    ("poetry run alembic upgrade head", [("database", "alembic upgrade head")]),
    ("alembic history", []),
    ("bin/rails db:migrate RAILS_ENV=test", [("database", "bin/rails db:migrate RAILS_ENV=test")]),
    ("bundle exec rake db:migrate:status", []),
    ("npx prisma migrate deploy", [("database", "prisma migrate deploy")]),
    ("npx prisma generate", []),
    ("psql -h db -c 'select count(*) from t; \\dt'", []),
    ("psql $URL -c \"delete from t where x = 'y;z'\"", [("database", "psql $URL -c delete from t where x = 'y;z'")]),
    ("psql app < dump.sql", [("database", "psql app")]),
    ("psql app <<SQL\nDROP TABLE t;\nSQL", [("database", "psql app")]),
    ("redis-cli -n 2 FLUSHALL && redis-cli get k", [("database", "redis-cli -n 2 FLUSHALL")]),
    ("php artisan migrate --force", [("database", "php artisan migrate --force")]),
    # other hosts
    ("curl -s https://api.example.com/v1/users | jq .", []),
    (
        "curl -X POST https://api.example.com/v1 -d '{\"a\": 1}'",
        [("remote", 'curl -X POST https://api.example.com/v1 -d {"a": 1}')],
    ),
    ("curl --json @body https://api.example.com", [("remote", "curl --json @body https://api.example.com")]),
    ("curl -XDELETE localhost:9200/index", []),
    ("curl -d a=b http://127.0.0.1:8000/login", []),
    ("curl -G -d q=x https://example.com/search", []),
    ("curl -fsSL https://example.com/i.sh | sh", []),
    ("wget https://example.com/a.tar.gz", []),
    ("wget --post-data=a=1 https://example.com/x", [("remote", "wget --post-data=a=1 https://example.com/x")]),
    ("http POST example.com/items name=x", [("remote", "http POST example.com/items name=x")]),
    ("http example.com/items", []),
    ("ssh -p 22 me@host 'systemctl restart app'", [("remote", "ssh -p 22 me@host systemctl restart app")]),
    ("ssh-keygen -t ed25519 -f k", []),
    ("scp -r dist me@host:/srv", [("remote", "scp -r dist me@host:/srv")]),
    ("scp me@host:/srv/log .", []),
    ("rsync -az --delete build/ host:/srv/", [("remote", "rsync -az --delete build/ host:/srv/")]),
    ("rsync -a src/ dst/", []),
    # containers, clusters, clouds, the machine
    ("docker ps -a && docker logs web", []),
    ("docker compose -f dev.yml up -d", [("container", "docker compose -f dev.yml up -d")]),
    ("docker compose ps", []),
    ("docker volume rm data", [("container", "docker volume rm data")]),
    ("docker build -t x . && docker push x", [("container", "docker build -t x ."), ("container", "docker push x")]),
    ("kubectl -n prod get pods", []),
    ("kubectl -n prod delete pod web-1", [("cluster", "kubectl -n prod delete pod web-1")]),
    ("kubectl rollout status deploy/web", []),
    ("kubectl apply -f x.yaml --dry-run=client", []),
    ("helm upgrade --install web ./chart", [("cluster", "helm upgrade --install web ./chart")]),
    ("aws s3 ls s3://bucket", []),
    ("aws s3 sync dist s3://bucket --delete", [("cloud", "aws s3 sync dist s3://bucket --delete")]),
    ("aws s3 cp s3://bucket/a ./a", []),
    ("aws --profile p ec2 describe-instances", []),
    (
        "aws lambda update-function-code --function-name f",
        [("cloud", "aws lambda update-function-code --function-name f")],
    ),
    ("gcloud compute instances list", []),
    ("gcloud run deploy web --source .", [("cloud", "gcloud run deploy web --source .")]),
    ("terraform plan -out p", []),
    ("terraform apply -auto-approve", [("cloud", "terraform apply -auto-approve")]),
    ("sudo apt-get install -y jq", [("system", "apt-get install -y jq")]),
    ("systemctl status nginx", []),
    ("sudo systemctl restart nginx", [("system", "systemctl restart nginx")]),
    # no effect that is known
    ("", []),
    ("ls -la && rm -rf build && make test", []),
    ("command -v docker", []),
    ("man git-push; which kubectl", []),
    ("git push --help", []),
    ("sed -i 's/docker push/x/' Makefile", []),
    ("grep -rn 'kubectl delete' .", []),
    # several at once, each once
    ("git push; git push; git push origin x", [("push", "git push"), ("push", "git push origin x")]),
    # what cannot be read is said
    ("git push && echo 'open", [("push", "git push"), ("unclear", "git push && echo 'open")]),
    ("cat <<EOF\ngit push", [("unclear", "cat <<EOF git push")]),
    ("echo 'open", []),
]


@pytest.mark.parametrize(("command", "expected"), LINES, ids=[line[:60] for line, _ in LINES])
def test_the_effects_of_a_command(command: str, expected: list[tuple[str, str]]) -> None:
    assert effects(command) == [Effect(*each) for each in expected]


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(LINES) >= 60 and sum(bool(found) for _, found in LINES) >= 30


def test_a_long_command_is_shown_cut_and_on_one_line() -> None:
    (found,) = effects("ssh host '" + "echo a\n" * 100 + "'")
    assert len(found.command) == 120 and found.command.endswith("…") and "\n" not in found.command


def test_more_than_can_be_looked_at_is_unclear() -> None:
    assert effects("git push\n" + ": x\n" * 10_000)[-1].kind == "unclear"


@given(st.text(alphabet=st.sampled_from("git push'\"\\$`;&|()<>{}#\n\t EOFa=-"), max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    effects("git push " + text)
    read(text)


@given(st.lists(st.text(max_size=8).filter(lambda word: "\0" not in word), min_size=1, max_size=6))
def test_what_is_quoted_comes_back_as_it_was(words: list[str]) -> None:
    script = read(shlex.join(words) + " > out; ls")
    assert script.whole
    assert [command.words for command in script.commands] == [words, ["ls"]]
    assert script.commands[0].written == ["out"]
