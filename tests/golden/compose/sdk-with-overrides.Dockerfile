# mcqa, on the base that all servers share. Rendered; a Dockerfile in the server's own folder replaces it.
FROM gym-base:0123456789ab
USER root
COPY requirements.txt overrides.txt /opt/gym/
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,id=gym-uv,target=/var/cache/uv \
    gym-install --override /opt/gym/overrides.txt -r /opt/gym/requirements.txt
USER gym
COPY . ./
CMD ["python", "-m", "gym.server.serve", "app.py"]
