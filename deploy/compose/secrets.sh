#!/bin/sh
# Makes the secrets of compose.yaml, once; what is there stays as it is. A certificate for localhost is made for a first
# look: put your own at tls/certificate.pem and tls/key.pem.
set -eu
umask 077
folder="${1:-$(dirname "$0")/secrets}"
mkdir -p "$folder/tls"
cd "$folder"

random() { head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n'; }
made() { [ -s "$1" ]; }

made person-key || head -c 32 /dev/urandom > person-key
made admin-key || echo "qs_$(random 6)_$(random 32)" > admin-key
made database-password || random 24 > database-password
made grafana-password || random 12 > grafana-password
made metrics-key || echo "none yet: quietshelf keys create --scope read --name prometheus" > metrics-key
made settings.toml || echo "database = \"postgresql://quietshelf:$(cat database-password)@database/quietshelf\"" > settings.toml
made tls/certificate.pem || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 \
    -subj "/CN=localhost" -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" \
    -keyout tls/key.pem -out tls/certificate.pem 2>/dev/null

# Containers read them as the users of their images: 10001 the service, others Prometheus and Grafana.
chmod 711 . tls
chmod 444 person-key admin-key database-password settings.toml metrics-key grafana-password tls/certificate.pem
if [ "$(id -u)" = 0 ]; then
    chown 10001:10001 person-key admin-key settings.toml
    chmod 400 person-key admin-key settings.toml
fi
echo "secrets are in $PWD"
