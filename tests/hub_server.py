"""A hub that speaks as much of Hugging Face's API as `kvasir pull` asks for. Prints its address.

usage: hub_server.py FOLDER LOG
FOLDER/OWNER/REPO/* are the repositories. Their files come from a second server, as from a CDN. Requests are logged with
the Authorization header that came. Owners change what happens: "broken" ends the first connection of each file half-way,
"whole" knows no ranges, "paged" lists one file a page, "astray" names a next page elsewhere, "lying" names other hashes, "closed" wants the token "secret", "out" sends to a file of this
machine.
"""
import hashlib
import http.server
import json
import os
import sys
import threading
from urllib.parse import parse_qsl, unquote, urlsplit

folder, log_path = sys.argv[1:]
broken = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *unused):
        pass

    def note(self):
        with open(log_path, 'a') as log:
            log.write('%s %s range=%s auth=%s\n' % (self.server.kind, self.path, self.headers.get('Range'),
                                                   self.headers.get('Authorization')))

    def send(self, status, body=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.note()
        parts = unquote(urlsplit(self.path).path).strip('/').split('/')
        return self.cdn(parts) if self.server.kind == 'cdn' else self.hub(parts)

    def hub(self, parts):
        if parts[:2] == ['api', 'models'] and parts[4:] == ['tree', 'main']:
            owner, repo = parts[2:4]
            path = os.path.join(folder, owner, repo)
            if owner == 'closed' and self.headers.get('Authorization') != 'Bearer secret':
                return self.send(401, b'{"error":"closed"}')
            if not os.path.isdir(path):
                return self.send(404, b'{"error":"none"}')
            files = []
            for name in sorted(os.listdir(path)):
                with open(os.path.join(path, name), 'rb') as file:
                    data = file.read()
                digest = '0' * 64 if owner == 'lying' else hashlib.sha256(data).hexdigest()
                files.append({'type': 'file', 'path': name, 'size': len(data), 'lfs': {'oid': digest, 'size': len(data)}})
            if owner == 'paged':
                at = int(dict(parse_qsl(urlsplit(self.path).query)).get('cursor', 0))
                more = {}
                if at + 1 < len(files):
                    url = 'http://%s/api/models/%s/%s/tree/main?recursive=true&cursor=%d'
                    more['Link'] = '<%s>; rel="next"' % (url % (self.headers['Host'], owner, repo, at + 1))
                return self.send(200, json.dumps(files[at:at + 1]).encode(), **more)
            if owner == 'astray':
                return self.send(200, json.dumps(files[:1]).encode(), Link='<%s/x>; rel="next"' % cdn_url)
            return self.send(200, json.dumps(files).encode(), Content_Type='application/json')
        owner, repo, resolve, main, name = parts
        assert (resolve, main) == ('resolve', 'main')
        to = 'file:///etc/passwd' if owner == 'out' else '%s/%s/%s/%s' % (cdn_url, owner, repo, name)
        return self.send(302, Location=to)

    def cdn(self, parts):
        with open(os.path.join(folder, *parts), 'rb') as file:
            data = file.read()
        wanted = self.headers.get('Range')
        begin = int(wanted.split('=')[1].split('-')[0]) if wanted and parts[0] != 'whole' else 0
        if begin >= len(data) > 0:
            return self.send(416)
        body = data[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header('Content-Range', 'bytes %d-%d/%d' % (begin, len(data) - 1, len(data)))
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if parts[0] == 'broken' and self.path not in broken:
            broken.add(self.path)
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            return self.connection.close()
        self.wfile.write(body)


def start(kind):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.handle_error = lambda *unused: None  # clients leave
    server.kind = kind
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return 'http://127.0.0.1:%d' % server.server_port


cdn_url = start('cdn')
print(start('hub'), flush=True)
sys.stdin.read()  # until whoever started this is gone
