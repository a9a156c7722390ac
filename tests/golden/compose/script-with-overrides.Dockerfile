# mcqa, on the base that all servers share. Rendered; a Dockerfile in the server's own folder replaces it.
FROM gym-base:0123456789ab
ENV VIRTUAL_ENV=/opt/server PATH=/opt/server/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER root
COPY requirements.txt overrides.txt /opt/gym/
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,id=gym-uv,target=/var/cache/uv \
    uv venv --quiet --python python3 /opt/server && gym-online uv pip install --quiet --compile-bytecode --override /opt/gym/overrides.txt -r /opt/gym/requirements.txt
USER gym
COPY . ./
CMD ["gym-with-secrets", "python", "/usr/local/bin/gym-script", "resources_servers.mcqa", "app.py"]
