# shellcheck shell=bash
# shellcheck disable=SC2154  # packages.sh sets them
# Sourced by packages.sh: apt repositories, good ones and others, and `weaver node update` from them.

# key NAME: a key of its own, in the file $work/NAME.asc.
key() {
  mkdir -m 0700 "$work/$1"
  gpg --quiet --homedir "$work/$1" --batch --passphrase '' --quick-generate-key "$1 <$1@example.com>" ed25519 sign 2y 2>/dev/null
  gpg --homedir "$work/$1" --batch --armor --export-secret-keys >"$work/$1.asc"
}

# sign REPOSITORY: its Release, after it was changed.
sign() {
  gpg --quiet --homedir "$work/ours" --yes --clearsign --output "$1/dists/stable/InRelease" "$1/dists/stable/Release"
}

# not_made TEXT COMMAND...: packaging/apt.sh refuses, with this in its words.
not_made() {
  local text=$1 said
  shift
  if said=$(env "$@" packaging/apt.sh of "$work/new" "$work/refused" 2>&1); then fail "not refused: $*: $said"; fi
  [[ $said == *"$text"* ]] || fail "'$text' is not in: $said"
}

# repositories: a good one with the newer packages and one of another architecture, and the faults of others, in
# $work/apt.
repositories() {
  local one apt=$work/apt
  key ours
  key theirs
  not_made "gpg --quick-generate-key" KEY=
  not_made "is no file, and gpg has no secret key" KEY="$work/absent"
  not_made "is no key" KEY=/etc/os-release
  not_made "where it could be committed" KEY=Makefile
  not_made "larger VALID_DAYS" KEY="$work/ours.asc" SOURCE_DATE_EPOCH=1700000000
  not_made "VALID_DAYS is" KEY="$work/ours.asc" VALID_DAYS=-1
  KEY=$work/ours.asc packaging/apt.sh of "$work/new" "$apt/good"
  KEY=$work/ours.asc TZ=Pacific/Apia packaging/apt.sh of "$work/new" "$apt/again" >/dev/null
  diff -r "$apt/good" "$apt/again" || fail "made again the repository is another one"
  rm -r "$apt/again"
  for one in expired half parts bad; do cp -rl "$apt/good" "$apt/$one"; done
  rm "$apt/expired/dists/stable/InRelease"
  KEY=$work/theirs.asc packaging/apt.sh of "$work/new" "$apt/theirs" >/dev/null
  mkdir "$work/foreign"
  cp "$work/new/other.deb" "$work/foreign"
  KEY=$work/ours.asc packaging/apt.sh of "$work/foreign" "$apt/foreign" >/dev/null
  sed 's/^Valid-Until: .*/Valid-Until: Thu, 26 Nov 2020 05:00:00 UTC/' "$apt/good/dists/stable/Release" >"$work/Release"
  rm "$apt/expired/dists/stable/Release"
  cp "$work/Release" "$apt/expired/dists/stable/Release"
  sign "$apt/expired"
  rm "$apt/half/pool/weaver_${newer}_$host.deb"
  rm "$apt/parts/dists/stable/main/binary-$host"/*
  # One whose node agent ends at once.
  rm -r "$apt/bad"
  mkdir "$work/bad"
  for one in "weaver_${newer}_$host" "config-weaver_${newer}_$host"; do
    dpkg-deb -R "$work/new/$one.deb" "$work/tree"
    sed -i "s/$newer/$bad/" "$work/tree/DEBIAN/control"
    [[ $one != config-weaver_* ]] || printf '#!/bin/sh\nexit 1\n' >"$work/tree/usr/bin/weaver-node-agent"
    dpkg-deb --root-owner-group -Znone -b "$work/tree" "$work/bad" >/dev/null
    rm -r "$work/tree"
  done
  KEY=$work/ours.asc packaging/apt.sh of "$work/bad" "$apt/bad" >/dev/null
  for one in ours theirs; do gpgconf --homedir "$work/$one" --kill gpg-agent; done
}

# source_is ADDRESS: as boot-config writes it.
source_is() {
  run "mkdir -p /etc/apt/keyrings; cp /apt/good/config-weaver.asc /etc/apt/keyrings; rm -rf /var/lib/apt/lists/*_dists_stable_*
    printf 'Types: deb\nURIs: %s\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/config-weaver.asc\n' $1 \
      > /etc/apt/sources.list.d/config-weaver.sources"
}

# says TEXT COMMAND: it succeeds, with this in its words.
says() {
  local said
  said=$(run "$2" 2>&1) || fail "$2: $said"
  [[ $said == *"$1"* ]] || fail "'$1' is not in: $said"
}

# serve DIRECTORY: its files over HTTP, to port 0 of perl's choice, which is printed.
serve() {
  exec perl -MIO::Socket::INET -e '
    $| = 1;
    $SIG{PIPE} = "IGNORE";
    my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die $!;
    print $server->sockport, "\n";
    while (my $client = $server->accept) {
      my $asked = <$client> // next;
      while (defined(my $line = <$client>)) { last if $line =~ /^\r?\n$/ }
      my ($path) = $asked =~ m{^GET (/[^ ]*) } or next;
      $path =~ s/%([0-9a-fA-F]{2})/chr hex $1/ge;
      if ($path !~ m{\.\.} && -f "$ARGV[0]$path" && open(my $file, "<", "$ARGV[0]$path")) {
        print $client "HTTP/1.0 200 OK\r\nContent-Length: ", -s $file, "\r\n\r\n";
        while (read($file, my $part, 1 << 16)) { print $client $part }
      } else { print $client "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n" }
      close $client;
    }' "$1"
}

# by_update: in a root that does not run, each source that is refused with its reason, and two that are good.
by_update() {
  local one port
  quiet "$install $(ours old "$version")"
  source_is file:/apt/good
  says "Nothing was changed: there is no terminal" "weaver node update"
  for one in "theirs:signed with another key" "expired:the repository has expired" "parts:a file that it lists is missing" \
    "none:there is no repository at this address" "foreign:no apt source has a package of Config Weaver for $host"; do
    source_is "file:/apt/${one%%:*}"
    refused "${one#*:}" "weaver node update --yes"
    is "$version" "dpkg-query -W -f '\${Version}' config-weaver"
  done
  # What is refused later is seen while it is fetched.
  source_is file:/apt/half
  refused "a file that it lists is missing" "weaver node update --yes"
  source_is http://127.0.0.1:9/apt
  refused "the repository's server does not answer" "weaver node update --yes"
  source_is file:/apt/good
  run "rm /etc/apt/keyrings/config-weaver.asc"
  refused "the key of the repository cannot be read" "weaver node update --yes"
  source_is file:/apt/good
  refused "no source has config-weaver 9 for $host: there is $newer" "weaver node update --yes --to 9"

  exec {served}< <(serve "$work/apt")
  server=$!
  read -r -u "$served" port
  source_is "http://127.0.0.1:$port/good"
  says "config-weaver $version → $newer, from http://127.0.0.1:$port/good stable/main" "weaver node update --dry-run"
  says "$newer is installed and verified: the packages are whole" "weaver node update --yes"
  kill "$server"
  verified
  run "rm /etc/apt/sources.list.d/config-weaver.sources"
  says "$version is installed and verified" "weaver node update --yes --to $version"
  verified
  quiet "apt-get purge -qq -y config-weaver weaver; rm /etc/apt/keyrings/config-weaver.asc"
}

# by_update_on_a_running_host: what is good stays, what is bad goes back, what is cut off is finished.
by_update_on_a_running_host() {
  source_is file:/apt/good
  quiet "$install $(ours old "$version")"
  eventually "systemctl is-active weaver-node-agent && grep -q F-01 /run/weaver/node-status.txt"
  # What the packages made and the owner changed.
  run "systemctl --quiet disable weaver-webhook.socket; echo WEAVER_CLOCK_WAIT=5 > /etc/weaver/node-agent.env"
  is inactive "systemctl is-active weaver-update.timer || true"
  quiet "echo WEAVER_UPDATE_WHEN=weekly | tee /etc/weaver/update.env; systemctl restart weaver-update.timer"
  is active "systemctl is-active weaver-update.timer"
  # As the timer does in the night.
  run "systemctl start weaver-update.service"
  is "$newer" "dpkg-query -W -f '\${Version}' config-weaver"
  run "grep -q '\"failure\":null' /var/lib/weaver/update-timer.json"
  says "not old enough" "weaver-node-agent update --yes --when weekly"
  enabled weaver-webhook.socket disabled
  verified

  source_is file:/apt/bad
  refused "$bad could not be verified: after 8 s: weaver-node-agent.service is" "weaver node update --yes --wait 8"
  is "$newer active" "echo \$(dpkg-query -W -f '\${Version}' config-weaver) \$(systemctl is-active weaver-node-agent)"
  verified
  # Killed while the bad one is verified: it is found, and goes back.
  run "weaver node update --yes --wait 600 > /update.log 2>&1 & echo \$! > /update.pid"
  eventually "grep -q Verifying /update.log"
  run "kill -9 \$(cat /update.pid)"
  is "$bad" "dpkg-query -W -f '\${Version}' config-weaver"
  # Its own agent knows nothing of updates: the one before is at hand.
  quiet "dpkg-deb --fsys-tarfile /var/lib/weaver/packages/replaced/config-weaver_*.deb | tar -xO ./usr/bin/weaver-node-agent > /agent
    chmod 755 /agent"
  refused "$bad is installed but was not verified" "/agent update --yes --wait 8"
  is "$newer active" "echo \$(dpkg-query -W -f '\${Version}' config-weaver) \$(systemctl is-active weaver-node-agent)"
  is "WEAVER_CLOCK_WAIT=5" "cat /etc/weaver/node-agent.env"

  # Killed while a good one is verified: reported, then finished.
  run "rm /etc/apt/sources.list.d/config-weaver.sources
    cp /debs/old/weaver_*.deb /debs/old/config-weaver_*.deb /var/lib/weaver/packages/old
    weaver node update --yes --to $version > /update.log 2>&1 & echo \$! > /update.pid"
  eventually "grep -q Verifying /update.log"
  run "kill -9 \$(cat /update.pid); systemctl restart weaver-node-agent"
  eventually "grep -q F-17 /run/weaver/node-status.txt"
  # As a boot does.
  run "systemctl start weaver-update-resume.service"
  run "grep -q '\"phase\": \"done\"' /var/lib/weaver/update.json"
  is "$version" "dpkg-query -W -f '\${Version}' config-weaver"
  eventually "! grep -q F-17 /run/weaver/node-status.txt"
  verified
  quiet "apt-get purge -qq -y config-weaver weaver; rm /etc/apt/keyrings/config-weaver.asc"
}
